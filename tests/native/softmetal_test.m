/* The software device alone, over a mock backend: Metal's rules, one case each. tests/softmetal_device.rs builds and
 * runs it. */
#import <Metal/Metal.h>

#import "harness.h"
#import "softmetal.h"

#include "mock_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARED = MTLResourceStorageModeShared, PRIVATE = MTLResourceStorageModePrivate };
static const MTLSize one = {1, 1, 1};

/* ------------------------------------------------------------------------------------------------------ fixtures -- */

/* Autoreleased: a case holds its objects until it ends, unless it is about letting go. */
static id<MTLDevice> device_with(const char *configuration) {
  NSError *error = nil;
  id<MTLDevice> device = SoftMetalCreateDevice("mock", configuration, &error);
  if (!device) printf("    %s\n", [[error localizedDescription] UTF8String]);
  return [device autorelease];
}

static id<MTLDevice> any_device(void) { return device_with(NULL); }

static id<MTLCommandQueue> queue_of(id<MTLDevice> device) { return [[device newCommandQueue] autorelease]; }

static id<MTLBuffer> buffer_of(id<MTLDevice> device, NSUInteger length) {
  return [[device newBufferWithLength:length options:SHARED] autorelease];
}

static id<MTLBuffer> floats(id<MTLDevice> device, NSUInteger count, float first) {
  id<MTLBuffer> buffer = buffer_of(device, count * sizeof(float));
  for (NSUInteger i = 0; i < count; i++) ((float *)buffer.contents)[i] = first + (float)i;
  return buffer;
}

static id<MTLFunction> function_of(id<MTLDevice> device, NSString *name) {
  id<MTLLibrary> library = [[device newLibraryWithSource:name options:nil error:NULL] autorelease];
  return [[library newFunctionWithName:name] autorelease];
}

static id<MTLComputePipelineState> pipeline_of(id<MTLDevice> device, NSString *name) {
  return [[device newComputePipelineStateWithFunction:function_of(device, name) error:NULL] autorelease];
}

/* Encodes one dispatch of a kernel over the buffers in order. */
static void encode(id<MTLCommandBuffer> commands, NSString *kernel, NSArray *buffers) {
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_of(commands.device, kernel)];
  NSUInteger index = 0;
  for (id<MTLBuffer> buffer in buffers) [encoder setBuffer:buffer offset:0 atIndex:index++];
  [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
  [encoder endEncoding];
}

static void encode_add(id<MTLCommandBuffer> commands, id<MTLBuffer> a, id<MTLBuffer> b, id<MTLBuffer> out,
                       uint32_t count) {
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_of(commands.device, @"add")];
  [encoder setBuffer:a offset:0 atIndex:0];
  [encoder setBuffer:b offset:0 atIndex:1];
  [encoder setBuffer:out offset:0 atIndex:2];
  [encoder setBytes:&count length:sizeof count atIndex:3];
  [encoder dispatchThreads:MTLSizeMake(count, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
  [encoder endEncoding];
}

static void run(id<MTLCommandBuffer> commands) {
  [commands commit];
  [commands waitUntilCompleted];
}

static NSUInteger resident_pages(const void *start, NSUInteger length) {
  NSUInteger page = (NSUInteger)sysconf(_SC_PAGESIZE), pages = length / page, resident = 0;
  unsigned char *flags = calloc(pages, 1);
  if (mincore((void *)start, length, (void *)flags) != 0) resident = NSUIntegerMax;
  for (NSUInteger i = 0; resident != NSUIntegerMax && i < pages; i++) resident += flags[i] & 1;
  free(flags);
  return resident;
}

static void *pages_of(NSUInteger length) {
  void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

/* -------------------------------------------------------------------------------------------------------- device -- */

CASE(device_describes_itself) {
  id<MTLDevice> device = any_device();
  CHECK([device.name isEqualToString:@"ironbridge software device (mock)"]);
  CHECK(!device.hasUnifiedMemory && device.isHeadless && !device.isLowPower && !device.isRemovable);
  CHECK(device.maxThreadsPerThreadgroup.width == 1024 && device.maxThreadsPerThreadgroup.depth == 1024);
  CHECK(device.maxThreadgroupMemoryLength == 32768);
  uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  CHECK(device.maxBufferLength == memory / 2);
  CHECK(device.recommendedMaxWorkingSetSize > memory / 2 && device.recommendedMaxWorkingSetSize < memory);
  CHECK(device.currentAllocatedSize == 0);
  CHECK([device supportsFamily:MTLGPUFamilyApple1] && [device supportsFamily:MTLGPUFamilyApple7]);
  CHECK([device supportsFamily:MTLGPUFamilyCommon3] && [device supportsFamily:MTLGPUFamilyMetal3]);
  CHECK(![device supportsFamily:MTLGPUFamilyApple8] && ![device supportsFamily:MTLGPUFamilyMac2]);
}

CASE(devices_are_independent) {
  id<MTLDevice> small = device_with("max_buffer_length=4K"), other = any_device();
  CHECK(small.registryID != other.registryID);
  id<MTLBuffer> buffer = buffer_of(other, 1 << 20);
  CHECK(buffer && other.currentAllocatedSize == 1 << 20);
  CHECK(small.currentAllocatedSize == 0 && small.maxBufferLength == 4096);
}

CASE(configurations_are_read) {
  const char *valid[] = {"",
                         "max_buffer_length=1G",
                         "memory_limit=3K,delay_us=5",
                         "fail_allocation=1,fail_allocation=2",
                         "fail_command_buffer=1:timeout,fail_command_buffer=2:4",
                         "memory_limit=18446744073709551615",
                         "schedule=7",
                         "schedule=7:3"};
  for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) CHECK(device_with(valid[i]) != nil);
  CHECK(device_with("max_buffer_length=1G").maxBufferLength == 1 << 30);
  CHECK(device_with("memory_limit=3K").recommendedMaxWorkingSetSize == 3072);
}

CASE(wrong_configurations_are_errors) {
  const struct {
    const char *text;
    NSString *said;
  } wrong[] = {
      {"nonsense", @"'nonsense' is not of the form KEY=VALUE"},
      {"memory_limit=1K,", @"'' is not of the form KEY=VALUE"},
      {"colour=red", @"there is no key 'colour'"},
      {"memory_limit=", @"memory_limit=: the value must be BYTES"},
      {"memory_limit=0", @"memory_limit=0: the value must be BYTES"},
      {"memory_limit=-1", @"memory_limit=-1"},
      {"memory_limit=1T", @"memory_limit=1T"},
      {"memory_limit=1KK", @"memory_limit=1KK"},
      {"memory_limit=18446744073709551616", @"memory_limit=18446744073709551616"},
      {"max_buffer_length=18014398509481984K", @"max_buffer_length=18014398509481984K"},
      {"memory_limit=1K,memory_limit=2K", @"memory_limit is given twice"},
      {"delay_us=1ms", @"delay_us=1ms: the value must be a number of microseconds"},
      {"fail_allocation=0", @"fail_allocation=0: the value must be a number from 1"},
      {"fail_command_buffer=1", @"fail_command_buffer=1: the value must be N:CODE"},
      {"fail_command_buffer=1:", @"fail_command_buffer=1:: the value must be N:CODE"},
      {"fail_command_buffer=1:0", @"the value must be N:CODE"},
      {"fail_command_buffer=0:timeout", @"the value must be N:CODE"},
      {"fail_command_buffer=1:rain", @"the value must be N:CODE"},
      {"schedule=0", @"schedule=0: the value must be SEED or SEED:THREADS"},
      {"schedule=1:", @"the value must be SEED or SEED:THREADS"},
      {"schedule=1:2:3", @"the value must be SEED or SEED:THREADS"},
      {"\xff", @"not UTF-8"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    NSError *error = nil;
    CHECK(SoftMetalCreateDevice("mock", wrong[i].text, &error) == nil);
    CHECK_TEXT([error localizedDescription], wrong[i].said);
  }
  CHECK(SoftMetalCreateDevice("mock", "nonsense", NULL) == nil);
}

/* ------------------------------------------------------------------------------------------------------- buffers -- */

CASE(a_buffer_is_zeroed_pages) {
  id<MTLDevice> device = any_device();
  NSUInteger page = (NSUInteger)sysconf(_SC_PAGESIZE);
  id<MTLBuffer> buffer = buffer_of(device, page + 1);
  CHECK(buffer.length == page + 1 && buffer.allocatedSize == 2 * page && device.currentAllocatedSize == 2 * page);
  CHECK(((uintptr_t)buffer.contents & (page - 1)) == 0);
  bool zero = true;
  for (NSUInteger i = 0; i < buffer.length; i++) zero &= ((char *)buffer.contents)[i] == 0;
  CHECK(zero);
  CHECK((id)buffer.device == (id)device && buffer.storageMode == MTLStorageModeShared);
  CHECK(buffer.cpuCacheMode == MTLCPUCacheModeDefaultCache);
  CHECK(buffer.hazardTrackingMode == MTLHazardTrackingModeTracked && buffer.resourceOptions == SHARED);
  NSMutableString *label = [NSMutableString stringWithString:@"weights"];
  buffer.label = label;
  [label appendString:@" no more"];
  CHECK([buffer.label isEqualToString:@"weights"]);
}

CASE(buffers_of_every_storage) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> hidden = [[device newBufferWithLength:16 options:PRIVATE] autorelease];
  CHECK(hidden.storageMode == MTLStorageModePrivate && hidden.contents == NULL && hidden.gpuAddress != 0);
  MTLResourceOptions options = MTLResourceStorageModeManaged | MTLResourceHazardTrackingModeUntracked |
                               MTLResourceCPUCacheModeWriteCombined;
  id<MTLBuffer> managed = [[device newBufferWithLength:16 options:options] autorelease];
  CHECK(managed.storageMode == MTLStorageModeManaged && managed.cpuCacheMode == MTLCPUCacheModeWriteCombined);
  CHECK(managed.hazardTrackingMode == MTLHazardTrackingModeUntracked);
  [managed didModifyRange:NSMakeRange(0, 16)];
  RAISES_INVALID(@"didModifyRange:", @"17 bytes from 0", [managed didModifyRange:NSMakeRange(0, 17)]);
  RAISES_STATE(@"didModifyRange:", @"managed", [hidden didModifyRange:NSMakeRange(0, 4)]);
  id<MTLBuffer> copied = [[device newBufferWithBytes:"four" length:4 options:SHARED] autorelease];
  CHECK(memcmp(copied.contents, "four", 4) == 0);
  RAISES_INVALID(@"newBufferWithBytes:length:options:", @"private",
                 [device newBufferWithBytes:"four" length:4 options:PRIVATE]);
}

CASE(wrong_buffers_raise) {
  id<MTLDevice> device = device_with("max_buffer_length=64K");
  NSString *with_length = @"newBufferWithLength:options:";
  RAISES_INVALID(with_length, @"length is 0", [device newBufferWithLength:0 options:SHARED]);
  RAISES_INVALID(with_length, @"length (65537) exceeds maxBufferLength (65536)",
                 [device newBufferWithLength:65537 options:SHARED]);
  RAISES_INVALID(with_length, @"maxBufferLength", [device newBufferWithLength:NSUIntegerMax options:SHARED]);
  RAISES_INVALID(with_length, @"options (0x30)",
                 [device newBufferWithLength:4 options:MTLResourceStorageModeMemoryless]);
  RAISES_INVALID(with_length, @"options (0x10000)", [device newBufferWithLength:4 options:0x10000]);
  NSString *with_bytes = @"newBufferWithBytes:length:options:";
  const void *nothing = NULL;
  RAISES_INVALID(with_bytes, @"pointer", [device newBufferWithBytes:nothing length:4 options:SHARED]);
  RAISES_INVALID(with_bytes, @"length is 0", [device newBufferWithBytes:"" length:0 options:SHARED]);
  CHECK(device.currentAllocatedSize == 0);
}

CASE(memory_without_a_copy) {
  id<MTLDevice> device = any_device();
  NSUInteger length = 4 * (NSUInteger)sysconf(_SC_PAGESIZE);
  void *pages = pages_of(length);
  __block int calls = 0;
  __block bool same = false;
  id<MTLBuffer> buffer = [device newBufferWithBytesNoCopy:pages
                                                   length:length
                                                  options:SHARED
                                              deallocator:^(void *pointer, NSUInteger freed) {
                                                calls++;
                                                same = pointer == pages && freed == length;
                                              }];
  CHECK(buffer.contents == pages && device.currentAllocatedSize == length);
  memset(pages, 7, length);
  CHECK([buffer setPurgeableState:MTLPurgeableStateEmpty] == MTLPurgeableStateNonVolatile);
  CHECK(((char *)pages)[length - 1] == 7 && device.currentAllocatedSize == length);
  CHECK(calls == 0);
  [buffer release];
  CHECK(calls == 1 && same && device.currentAllocatedSize == 0);

  id<MTLBuffer> unowned = [device newBufferWithBytesNoCopy:pages length:length options:SHARED deallocator:nil];
  CHECK(unowned.contents == pages);
  [unowned release];
  CHECK(((char *)pages)[0] == 7);
  munmap(pages, length);
}

CASE(wrong_memory_without_a_copy_raises_and_keeps_the_deallocator_uncalled) {
  NSUInteger length = 2 * (NSUInteger)sysconf(_SC_PAGESIZE);
  char *pages = pages_of(length);
  __block int calls = 0;
  void (^deallocator)(void *, NSUInteger) = ^(void *pointer, NSUInteger freed) {
    (void)pointer, (void)freed;
    calls++;
  };
  id<MTLDevice> device = any_device();
  NSString *selector = @"newBufferWithBytesNoCopy:length:options:deallocator:";
#define NO_COPY(pointer, size, mode) \
  [device newBufferWithBytesNoCopy:pointer length:size options:mode deallocator:deallocator]
  void *nothing = NULL;
  RAISES_INVALID(selector, @"pointer must not be NULL", NO_COPY(nothing, length, SHARED));
  RAISES_INVALID(selector, @"private", NO_COPY(pages, length, PRIVATE));
  device = device_with("fail_allocation=1,memory_limit=1");
  CHECK(NO_COPY(pages, length, SHARED) == nil);
  CHECK(NO_COPY(pages, length, SHARED) == nil);
#undef NO_COPY
  CHECK(calls == 0 && device.currentAllocatedSize == 0);
  munmap(pages, length);
}

CASE(an_emptied_buffer_gives_its_pages_back) {
  id<MTLDevice> device = any_device();
  NSUInteger length = 1 << 20, pages = length / (NSUInteger)sysconf(_SC_PAGESIZE);
  id<MTLBuffer> buffer = buffer_of(device, length);
  memset(buffer.contents, 1, length);
  CHECK(resident_pages(buffer.contents, length) == pages);
  CHECK([buffer setPurgeableState:MTLPurgeableStateKeepCurrent] == MTLPurgeableStateNonVolatile);
  CHECK([buffer setPurgeableState:MTLPurgeableStateVolatile] == MTLPurgeableStateNonVolatile);
  CHECK([buffer setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateVolatile);
  CHECK(((char *)buffer.contents)[length - 1] == 1 && device.currentAllocatedSize == length);
  CHECK([buffer setPurgeableState:MTLPurgeableStateEmpty] == MTLPurgeableStateNonVolatile);
  CHECK(resident_pages(buffer.contents, length) == 0 && device.currentAllocatedSize == 0);
  CHECK([buffer setPurgeableState:MTLPurgeableStateVolatile] == MTLPurgeableStateEmpty);
  CHECK([buffer setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateEmpty);
  CHECK(((char *)buffer.contents)[length - 1] == 0 && device.currentAllocatedSize == length);
  RAISES_INVALID(@"setPurgeableState:", @"state (9)", [buffer setPurgeableState:(MTLPurgeableState)9]);
  [buffer setPurgeableState:MTLPurgeableStateEmpty]; /* and released so: its bytes are not given back twice */
}

CASE(a_buffer_in_flight_is_not_purged) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> buffer = buffer_of(device, 64);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode(commands, @"wait", [NSArray arrayWithObject:buffer]);
  CHECK([buffer setPurgeableState:MTLPurgeableStateVolatile] == MTLPurgeableStateNonVolatile);
  RAISES_STATE(@"commit", @"Volatile", [commands commit]);
  [buffer setPurgeableState:MTLPurgeableStateEmpty];
  RAISES_STATE(@"commit", @"Empty", [commands commit]);
  [buffer setPurgeableState:MTLPurgeableStateNonVolatile];
  mock_gate_close();
  [commands commit];
  RAISES_STATE(@"setPurgeableState:", @"in flight", [buffer setPurgeableState:MTLPurgeableStateEmpty]);
  RAISES_STATE(@"setPurgeableState:", @"in flight", [buffer setPurgeableState:MTLPurgeableStateVolatile]);
  CHECK([buffer setPurgeableState:MTLPurgeableStateKeepCurrent] == MTLPurgeableStateNonVolatile);
  mock_gate_open();
  [commands waitUntilCompleted];
  CHECK([buffer setPurgeableState:MTLPurgeableStateEmpty] == MTLPurgeableStateNonVolatile);
}

/* Whether Volatile was refused inside the completion handler of a command buffer that used the buffer. */
static bool is_refused_in_a_handler(id<MTLDevice> device, id<MTLCommandQueue> queue) {
  id<MTLBuffer> buffer = buffer_of(device, 64);
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  encode(commands, @"wait", [NSArray arrayWithObject:buffer]);
  __block bool refused = false;
  [commands addCompletedHandler:^(id<MTLCommandBuffer> complete) {
    (void)complete;
    @try {
      [buffer setPurgeableState:MTLPurgeableStateVolatile];
    } @catch (NSException *raised) {
      refused = [[raised reason] rangeOfString:@"in flight"].location != NSNotFound;
    }
  }];
  run(commands);
  [buffer setPurgeableState:MTLPurgeableStateVolatile];
  CHECK([buffer setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateVolatile);
  return refused;
}

CASE(b1_uses_end_before_or_after_the_handlers_as_the_seed_says) {
  id<MTLDevice> device = device_with("late=5"), same = device_with("late=5");
  id<MTLCommandQueue> queue = queue_of(device), other = queue_of(same);
  enum { ROUNDS = 32 };
  int refusals = 0, differences = 0;
  for (int round = 0; round < ROUNDS; round++) {
    bool refused = is_refused_in_a_handler(device, queue);
    refusals += refused;
    differences += refused != is_refused_in_a_handler(same, other);
  }
  CHECK(refusals > 0 && refusals < ROUNDS && differences == 0);
}

CASE(b6_a_place_in_the_queue_may_be_free_late) {
  id<MTLDevice> device = device_with("late=5");
  id<MTLCommandQueue> queue = [[device newCommandQueueWithMaxCommandBufferCount:1] autorelease];
  __block int taken = 0, free = 0;
  enum { ROUNDS = 32 };
  for (int round = 0; round < ROUNDS; round++) {
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    [commands addCompletedHandler:^(id<MTLCommandBuffer> complete) {
      (void)complete;
      @try {
        [queue commandBuffer];
        free++;
      } @catch (NSException *raised) {
        taken++;
      }
    }];
    run(commands);
  }
  CHECK(taken > 0 && free > 0 && taken + free == ROUNDS);
}

CASE(b1_a_strict_device_ends_the_program_that_purges_what_is_in_use) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    id<MTLDevice> device = device_with("strict=apple");
    is_refused_in_a_handler(device, queue_of(device));
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

CASE(b3_residency_sets_hold_what_was_committed) {
  id<MTLDevice> plain = any_device();
  MTLResidencySetDescriptor *descriptor = [[MTLResidencySetDescriptor new] autorelease];
  NSError *error = nil;
  CHECK([plain newResidencySetWithDescriptor:descriptor error:&error] == nil && error);

  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    id<MTLDevice> device = device_with("strict=apple");
    id<MTLCommandQueue> queue = queue_of(device);
    id<MTLResidencySet> set = [device newResidencySetWithDescriptor:descriptor error:&error];
    id<MTLBuffer> buffer = [device newBufferWithLength:4096 options:SHARED];
    [queue addResidencySet:set];
    [set addAllocation:buffer];
    bool staged = ![set containsAllocation:buffer] && set.allocationCount == 0;
    [set commit];
    bool holds = [set containsAllocation:buffer] && set.allocationCount == 1 && set.allocatedSize >= 4096;
    [set requestResidency];
    if (!staged || !holds) _exit(1);
    [buffer release]; /* still a member */
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* out = a + a, then next = out + a; in between, where `guarded`, a barrier. */
static float added_twice(const char *configuration, bool guarded) {
  id<MTLDevice> device = device_with(configuration);
  id<MTLBuffer> a = floats(device, 1, 1), out = buffer_of(device, 4), next = buffer_of(device, 4);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
  const uint32_t count = 1;
  [encoder setComputePipelineState:pipeline_of(device, @"add")];
  [encoder setBytes:&count length:sizeof count atIndex:3];
  [encoder setBuffer:a offset:0 atIndex:0];
  [encoder setBuffer:a offset:0 atIndex:1];
  [encoder setBuffer:out offset:0 atIndex:2];
  [encoder dispatchThreads:one threadsPerThreadgroup:one];
  if (guarded) [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
  [encoder setBuffer:out offset:0 atIndex:0];
  [encoder setBuffer:next offset:0 atIndex:2];
  [encoder dispatchThreads:one threadsPerThreadgroup:one];
  [encoder endEncoding];
  run(commands);
  CHECK(commands.error == nil);
  return *(float *)next.contents;
}

CASE(e_a_missing_barrier_shows_on_a_strict_device) {
  CHECK(added_twice("strict=apple", true) == 3);
  CHECK(added_twice("strict=apple", false) == 1); /* out is still 0 */
  CHECK(added_twice(NULL, false) == 3);
}

/* The signal that a dispatch of `add` ends a strict program with; 0: none. */
static int signal_of_dispatch(NSUInteger offset, bool bound) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    id<MTLDevice> device = device_with("strict=apple");
    id<MTLBuffer> buffer = buffer_of(device, 64);
    id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    const uint32_t count = 1;
    [encoder setComputePipelineState:pipeline_of(device, @"add")];
    [encoder setBytes:&count length:sizeof count atIndex:3];
    [encoder setBuffer:buffer offset:offset atIndex:0];
    [encoder setBuffer:buffer offset:0 atIndex:1];
    if (bound) [encoder setBuffer:buffer offset:0 atIndex:2];
    [encoder dispatchThreads:one threadsPerThreadgroup:one];
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

CASE(e_a_strict_device_ends_the_program_whose_arguments_do_not_fit) {
  CHECK(signal_of_dispatch(8, true) == 0);
  CHECK(signal_of_dispatch(6, true) == SIGABRT);  /* not aligned */
  CHECK(signal_of_dispatch(8, false) == SIGABRT); /* not bound */
}

/* Whether a strict device ends the program that does this. A case asks before it opens a device of its own, whose
 * threads the thread sanitizer would not let a child go on without. */
static bool strict_aborts(void (^mistake)(id<MTLDevice> device)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    mistake(device_with("strict=apple"));
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static id<MTLComputeCommandEncoder> encoder_of(id<MTLDevice> device, NSString *kernel) {
  id<MTLComputeCommandEncoder> encoder = [[queue_of(device) commandBuffer] computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_of(device, kernel)];
  return encoder;
}

CASE(e_a_strict_device_ends_the_program_that_uses_what_may_be_gone) {
  CHECK(strict_aborts(^(id<MTLDevice> device) {
    id<MTLBuffer> out = buffer_of(device, 4);
    id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
    encode_add(commands, floats(device, 1, 1), floats(device, 1, 1), out, 1);
    [out setPurgeableState:MTLPurgeableStateVolatile];
    [commands commit];
  }));
}

CASE(e_threadgroup_memory_has_any_length_unless_strict) {
  CHECK(!strict_aborts(^(id<MTLDevice> strict) {
    [encoder_of(strict, @"share") setThreadgroupMemoryLength:144 atIndex:0];
  }));
  CHECK(strict_aborts(^(id<MTLDevice> strict) {
    [encoder_of(strict, @"share") setThreadgroupMemoryLength:136 atIndex:0];
  }));
  id<MTLDevice> device = any_device();
  id<MTLBuffer> out = buffer_of(device, sizeof(described_dispatch));
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_of(device, @"describe")];
  [encoder setBuffer:out offset:0 atIndex:0];
  [encoder setThreadgroupMemoryLength:136 atIndex:0];
  [encoder setThreadgroupMemoryLength:1 atIndex:1];
  [encoder setThreadgroupMemoryLength:0 atIndex:2];
  [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
  [encoder endEncoding];
  run(commands);
  const described_dispatch *seen = out.contents;
  CHECK(seen->threadgroup_memory[0] == 144 && seen->threadgroup_memory[1] == 16 && seen->threadgroup_memory[2] == 0);
}

CASE(e_threadgroup_memory_may_have_no_length_unless_strict) {
  void (^dispatch)(id<MTLDevice>) = ^(id<MTLDevice> device) {
    id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    [encoder setComputePipelineState:pipeline_of(device, @"share")];
    [encoder setThreadgroupMemoryLength:0 atIndex:0];
    [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
    [encoder endEncoding];
    run(commands);
    CHECK(commands.status == MTLCommandBufferStatusCompleted);
  };
  CHECK(strict_aborts(dispatch));
  dispatch(any_device());
}

CASE(e_an_empty_grid_runs_nothing_unless_strict) {
  const MTLSize empty[] = {{0, 1, 3}, {1, 0, 1}, {1, 1, 0}};
  for (int i = 0; i < 3; i++) {
    MTLSize grid = empty[i];
    CHECK(strict_aborts(^(id<MTLDevice> strict) {
      [encoder_of(strict, @"narrow") dispatchThreadgroups:grid threadsPerThreadgroup:one];
    }));
    CHECK(strict_aborts(^(id<MTLDevice> strict) {
      [encoder_of(strict, @"narrow") dispatchThreads:grid threadsPerThreadgroup:one];
    }));
  }
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_of(device, @"narrow")];
  int before = mock_executed();
  for (int i = 0; i < 3; i++) {
    MTLSize grid = empty[i];
    [encoder dispatchThreadgroups:grid threadsPerThreadgroup:one];
    [encoder dispatchThreads:grid threadsPerThreadgroup:one];
  }
  /* What else is wrong with it still is. */
  RAISES_INVALID(@"dispatchThreads:threadsPerThreadgroup:", @"128 threads",
                 [encoder dispatchThreads:empty[0] threadsPerThreadgroup:MTLSizeMake(128, 1, 1)]);
  [encoder endEncoding];
  run(commands);
  CHECK(commands.status == MTLCommandBufferStatusCompleted && mock_executed() == before);
}

CASE(e_memory_without_a_copy_is_any_memory_unless_strict) {
  NSUInteger page = (NSUInteger)sysconf(_SC_PAGESIZE);
  char *pages = pages_of(2 * page);
  id<MTLDevice> device = any_device();
  __block int calls = 0;
  float *first = (float *)(pages + 8);
  for (int i = 0; i < 4; i++) first[i] = (float)i;
  id<MTLBuffer> buffer = [device newBufferWithBytesNoCopy:first
                                                   length:4 * sizeof *first
                                                  options:SHARED
                                              deallocator:^(void *pointer, NSUInteger length) {
                                                calls += pointer == first && length == 4 * sizeof *first;
                                              }];
  CHECK(buffer.contents == first && buffer.length == 16 && device.currentAllocatedSize == page);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode_add(commands, buffer, buffer, buffer, 4);
  run(commands);
  CHECK(commands.error == nil && first[3] == 6);
  [buffer release];
  CHECK(calls == 1 && device.currentAllocatedSize == 0);
  CHECK(strict_aborts(^(id<MTLDevice> strict) {
    [strict newBufferWithBytesNoCopy:pages + 8 length:page options:SHARED deallocator:nil];
  }));
  CHECK(strict_aborts(^(id<MTLDevice> strict) {
    [strict newBufferWithBytesNoCopy:pages length:16 options:SHARED deallocator:nil];
  }));
  CHECK(!strict_aborts(^(id<MTLDevice> strict) {
    [strict newBufferWithBytesNoCopy:pages length:page options:SHARED deallocator:nil];
  }));
  munmap(pages, 2 * page);
}

CASE(b5_after_a_fault_a_queue_may_ignore_what_comes) {
  id<MTLDevice> device = device_with("after_fault=ignore,fail_command_buffer=2:page_fault");
  id<MTLCommandQueue> queue = queue_of(device);
  const NSInteger expected[] = {0, MTLCommandBufferErrorPageFault, MTLCommandBufferErrorAccessRevoked,
                                MTLCommandBufferErrorAccessRevoked};
  for (int i = 0; i < 4; i++) {
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    run(commands);
    CHECK([commands.error code] == expected[i]);
  }
  id<MTLCommandBuffer> elsewhere = [queue_of(device) commandBuffer];
  run(elsewhere);
  CHECK(elsewhere.status == MTLCommandBufferStatusCompleted);
}

/* -------------------------------------------------------------------------------------------------------- faults -- */

CASE(allocations_fail_as_planned) {
  id<MTLDevice> device = device_with("fail_allocation=2,fail_allocation=4");
  bool made[5];
  for (int i = 0; i < 5; i++) made[i] = buffer_of(device, 16) != nil;
  CHECK(made[0] && !made[1] && made[2] && !made[3] && made[4]);
}

CASE(the_memory_limit_holds) {
  id<MTLDevice> device = device_with("memory_limit=64K");
  id<MTLBuffer> first = [device newBufferWithLength:48 << 10 options:SHARED];
  CHECK(first && [device newBufferWithLength:17 << 10 options:SHARED] == nil);
  CHECK(device.currentAllocatedSize == 48 << 10);
  id<MTLBuffer> second = buffer_of(device, 16 << 10);
  CHECK(second && device.currentAllocatedSize == 64 << 10);
  [first release];
  CHECK(buffer_of(device, 48 << 10) != nil);
}

CASE(memory_that_the_system_lacks_is_nil) {
  id<MTLDevice> device = device_with("max_buffer_length=8589934592G");
  CHECK([device newBufferWithLength:(NSUInteger)1 << 62 options:SHARED] == nil);
  CHECK(device.currentAllocatedSize == 0);
}

CASE(command_buffers_fail_as_planned) {
  const struct {
    const char *configuration;
    NSInteger code;
  } planned[] = {
      {"fail_command_buffer=2:internal", MTLCommandBufferErrorInternal},
      {"fail_command_buffer=2:timeout", MTLCommandBufferErrorTimeout},
      {"fail_command_buffer=2:page_fault", MTLCommandBufferErrorPageFault},
      {"fail_command_buffer=2:access_revoked", MTLCommandBufferErrorAccessRevoked},
      {"fail_command_buffer=2:not_permitted", MTLCommandBufferErrorNotPermitted},
      {"fail_command_buffer=2:out_of_memory", MTLCommandBufferErrorOutOfMemory},
      {"fail_command_buffer=2:invalid_resource", MTLCommandBufferErrorInvalidResource},
      {"fail_command_buffer=2:device_removed", MTLCommandBufferErrorDeviceRemoved},
      {"fail_command_buffer=2:12", MTLCommandBufferErrorStackOverflow},
  };
  for (size_t i = 0; i < sizeof planned / sizeof *planned; i++) {
    id<MTLDevice> device = device_with(planned[i].configuration);
    id<MTLCommandQueue> queue = queue_of(device);
    for (int n = 1; n <= 3; n++) {
      id<MTLBuffer> out = buffer_of(device, 400);
      id<MTLCommandBuffer> commands = [queue commandBuffer];
      encode_add(commands, floats(device, 100, 1), floats(device, 100, 1), out, 100);
      run(commands);
      CHECK(((float *)out.contents)[0] == (n == 2 ? 0 : 2));
      CHECK(commands.status == (n == 2 ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted));
      CHECK(n == 2 ? commands.error.code == planned[i].code : commands.error == nil);
      if (n == 2) CHECK([commands.error.domain isEqualToString:MTLCommandBufferErrorDomain]);
    }
  }
}

CASE(a_delay_is_kept) {
  id<MTLCommandBuffer> commands = [queue_of(device_with("delay_us=20000")) commandBuffer];
  run(commands);
  CHECK(commands.GPUEndTime - commands.GPUStartTime >= 0.02);
}

/* ------------------------------------------------------------------------------------------------------- running -- */

CASE(a_dispatch_computes) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> a = floats(device, 100, 1), b = floats(device, 100, 1000), out = buffer_of(device, 400);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode_add(commands, a, b, out, 100);
  run(commands);
  CHECK(commands.status == MTLCommandBufferStatusCompleted && commands.error == nil);
  bool right = true;
  for (int i = 0; i < 100; i++) right &= ((float *)out.contents)[i] == 1001 + 2 * (float)i;
  CHECK(right);
}

CASE(arguments_are_what_they_were_at_the_dispatch) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> first = floats(device, 4, 1), second = floats(device, 4, 10), out = buffer_of(device, 32);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  CHECK(encoder.dispatchType == MTLDispatchTypeSerial && (id)encoder.device == (id)device);
  [encoder setComputePipelineState:pipeline_of(device, @"add")];
  const id<MTLBuffer> buffers[] = {first, second, out};
  const NSUInteger offsets[] = {4, 8, 0};
  [encoder setBuffers:buffers offsets:offsets withRange:NSMakeRange(0, 3)];
  uint32_t count = 2;
  [encoder setBytes:&count length:sizeof count atIndex:3];
  count = 1000; /* the encoder has a copy */
  [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
  [encoder setBuffer:first offset:0 atIndex:1];
  [encoder setBufferOffset:16 atIndex:2];
  [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
  const id<MTLResource> resources[] = {first, out};
  [encoder memoryBarrierWithResources:resources count:2];
  [encoder useResources:resources count:2 usage:MTLResourceUsageRead];
  [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
  [encoder setBuffer:nil offset:0 atIndex:0]; /* after the dispatches: no matter */
  [encoder endEncoding];
  run(commands);
  const float *sums = out.contents;
  CHECK(commands.error == nil);
  CHECK(sums[0] == 2 + 12 && sums[1] == 3 + 13);   /* first[1..] + second[2..] */
  CHECK(sums[4] == 2 + 1 && sums[5] == 3 + 2);     /* first[1..] + first[0..] */
}

CASE(a_dispatch_reaches_the_backend_whole) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> out = buffer_of(device, sizeof(described_dispatch));
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
  CHECK(encoder.dispatchType == MTLDispatchTypeConcurrent);
  [encoder setComputePipelineState:pipeline_of(device, @"describe")];
  [encoder setBuffer:out offset:0 atIndex:0];
  [encoder setBuffer:out offset:8 atIndex:30];
  [encoder setThreadgroupMemoryLength:32 atIndex:3];
  [encoder dispatchThreads:MTLSizeMake(100, 2, 3) threadsPerThreadgroup:MTLSizeMake(32, 4, 8)];
  [encoder endEncoding];
  run(commands);
  described_dispatch seen;
  memcpy(&seen, out.contents, sizeof seen);
  CHECK(seen.threads && seen.grid[0] == 100 && seen.grid[1] == 2 && seen.grid[2] == 3);
  CHECK(seen.threadgroup[0] == 32 && seen.threadgroup[1] == 4 && seen.threadgroup[2] == 8);
  CHECK(seen.threadgroup_memory[3] == 32 && seen.threadgroup_memory[0] == 0);
  CHECK(seen.binding_count == 31 && seen.threadgroup_memory_count == 4);
  CHECK(seen.lengths[0] == sizeof seen && seen.lengths[30] == sizeof seen - 8);
  CHECK((const char *)seen.pointers[30] == (const char *)out.contents + 8 && seen.pointers[1] == NULL);
}

CASE(blits_copy_and_fill) {
  id<MTLDevice> device = any_device();
  id<MTLBuffer> source = floats(device, 8, 1), hidden = [[device newBufferWithLength:32 options:PRIVATE] autorelease];
  id<MTLBuffer> out = buffer_of(device, 32);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLBlitCommandEncoder> encoder = [commands blitCommandEncoder];
  encoder.label = @"blit";
  [encoder pushDebugGroup:@"group"];
  [encoder insertDebugSignpost:@"here"];
  [encoder copyFromBuffer:source sourceOffset:0 toBuffer:hidden destinationOffset:0 size:32];
  [encoder copyFromBuffer:hidden sourceOffset:8 toBuffer:out destinationOffset:4 size:16];
  [encoder copyFromBuffer:out sourceOffset:4 toBuffer:out destinationOffset:20 size:8]; /* one buffer, apart */
  [encoder fillBuffer:out range:NSMakeRange(28, 4) value:0xff];
  [encoder popDebugGroup];
  [encoder endEncoding];
  run(commands);
  const float *values = out.contents;
  CHECK(commands.error == nil && values[0] == 0 && values[1] == 3 && values[4] == 6);
  CHECK(values[5] == 3 && values[6] == 4 && ((uint32_t *)values)[7] == UINT32_MAX);
}

CASE(failures_of_kernels_become_errors) {
  const struct {
    NSString *kernel;
    NSInteger code;
    NSString *said;
  } failing[] = {
      {@"silent", MTLCommandBufferErrorInternal, @"gave no reason"},
      {@"page_fault", MTLCommandBufferErrorPageFault, @"on purpose"},
      {@"invalid", MTLCommandBufferErrorInvalidResource, @"on purpose"},
      {@"internal", MTLCommandBufferErrorInternal, @"on purpose"},
      {@"out_of_memory", MTLCommandBufferErrorOutOfMemory, @"on purpose"},
      {@"timeout", MTLCommandBufferErrorTimeout, @"on purpose"},
      {@"stack_overflow", MTLCommandBufferErrorStackOverflow, @"on purpose"},
      {@"unsupported", MTLCommandBufferErrorInternal, @"on purpose"},
      {@"device_lost", MTLCommandBufferErrorDeviceRemoved, @"on purpose"},
      {@"add", MTLCommandBufferErrorInvalidResource, @"nothing is bound at buffer(0)"},
  };
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    commands.label = @"doomed";
    id<MTLBuffer> filled = buffer_of(device, 4);
    encode(commands, failing[i].kernel, [NSArray array]);
    id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
    [blit fillBuffer:filled range:NSMakeRange(0, 4) value:1];
    [blit endEncoding];
    run(commands);
    CHECK(commands.status == MTLCommandBufferStatusError && commands.error.code == failing[i].code);
    CHECK([commands.error.domain isEqualToString:MTLCommandBufferErrorDomain]);
    CHECK_TEXT([commands.error localizedDescription], failing[i].said);
    if (i > 0) CHECK_TEXT([commands.error localizedDescription], failing[i].kernel);
    CHECK_TEXT([commands.error localizedDescription], @"doomed");
    CHECK(((char *)filled.contents)[0] == 0); /* what comes after the failure does not run */
    id<MTLCommandBuffer> next = [queue commandBuffer];
    run(next);
    CHECK(next.status == MTLCommandBufferStatusCompleted);
  }
}

CASE(an_operand_that_is_too_short_is_a_page_fault) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode_add(commands, floats(device, 10, 0), floats(device, 9, 0), buffer_of(device, 40), 10);
  run(commands);
  CHECK(commands.error.code == MTLCommandBufferErrorPageFault);
  CHECK_TEXT([commands.error localizedDescription], @"ends too early");
}

/* --------------------------------------------------------------------------------------- libraries and pipelines -- */

CASE(libraries_list_and_make_their_functions) {
  id<MTLDevice> device = any_device();
  NSError *error = nil;
  id<MTLLibrary> library = [[device newLibraryWithSource:@"add narrow hoard" options:nil error:&error] autorelease];
  library.label = @"three";
  CHECK((id)library.device == (id)device && error == nil && [library.label isEqualToString:@"three"]);
  NSArray *names = [NSArray arrayWithObjects:@"add", @"narrow", @"hoard", nil];
  CHECK([library.functionNames isEqualToArray:names]);
  CHECK(library.functionNames == library.functionNames); /* they are made once */
  id<MTLFunction> function = [[library newFunctionWithName:@"narrow"] autorelease];
  CHECK([function.name isEqualToString:@"narrow"] && function.functionType == MTLFunctionTypeKernel);
  CHECK((id)function.device == (id)device);
  id<MTLComputePipelineState> pipeline = [[device newComputePipelineStateWithFunction:function
                                                                                error:&error] autorelease];
  CHECK(pipeline.maxTotalThreadsPerThreadgroup == 64 && pipeline.threadExecutionWidth == 32);
  CHECK(pipeline.staticThreadgroupMemoryLength == 0 && pipeline.label == nil && error == nil);
  CHECK(pipeline_of(device, @"hoard").staticThreadgroupMemoryLength == 16384);
  CHECK([library newFunctionWithName:@"absent"] == nil);
}

CASE(what_does_not_compile_is_an_error) {
  id<MTLDevice> device = any_device();
  NSError *error = nil;
  CHECK([device newLibraryWithSource:@"an error" options:nil error:&error] == nil);
  CHECK([error.domain isEqualToString:MTLLibraryErrorDomain] && error.code == MTLLibraryErrorCompileFailure);
  CHECK_TEXT([error localizedDescription], @"program_source:1:1: error: \"an error\"");
  CHECK([device newLibraryWithSource:@"an error" options:nil error:NULL] == nil);
  NSString *nothing = nil;
  RAISES_INVALID(@"newLibraryWithSource:options:error:", @"source", [device newLibraryWithSource:nothing
                                                                                         options:nil
                                                                                           error:NULL]);
  id<MTLLibrary> library = [[device newLibraryWithSource:@"add" options:nil error:NULL] autorelease];
  RAISES_INVALID(@"newFunctionWithName:", @"functionName", [library newFunctionWithName:nothing]);
}

CASE(a_kernel_that_no_pipeline_can_hold_is_an_error) {
  id<MTLDevice> device = any_device();
  NSError *error = nil;
  id<MTLFunction> function = function_of(device, @"glutton");
  CHECK([device newComputePipelineStateWithFunction:function error:&error] == nil);
  CHECK([error.domain isEqualToString:MTLLibraryErrorDomain] && error.code == MTLLibraryErrorCompileFailure);
  CHECK_TEXT([error localizedDescription], @"32784 bytes of threadgroup memory, the device has 32768");
  CHECK([device newComputePipelineStateWithFunction:function error:NULL] == nil);
}

CASE(macros_come_before_the_source) {
  MTLCompileOptions *options = [[MTLCompileOptions new] autorelease];
  CHECK(options.fastMathEnabled);
  NSNumber *number = [NSNumber numberWithInt:1];
  options.preprocessorMacros = [NSDictionary dictionaryWithObjectsAndKeys:@"2", @"B", number, @"A", nil];
  CHECK([[[options copy] autorelease] preprocessorMacros].count == 2);
  NSError *error = nil;
  CHECK([any_device() newLibraryWithSource:@"error" options:options error:&error] == nil);
  CHECK_TEXT([error localizedDescription], @"\"#define A 1\n#define B 2\n#line 1\nerror\"");
}

CASE(functions_are_specialised_with_constants) {
  id<MTLDevice> device = any_device();
  id<MTLLibrary> library = [[device newLibraryWithSource:@"special constants" options:nil error:NULL] autorelease];
  CHECK([library newFunctionWithName:@"special"] == nil);
  MTLFunctionConstantValues *values = [[MTLFunctionConstantValues new] autorelease];
  const uint32_t first = 1, second = 2;
  const float pair[] = {0.5f, 0.25f};
  const bool yes = true;
  [values setConstantValue:&first type:MTLDataTypeUInt atIndex:7];
  [values setConstantValue:&second type:MTLDataTypeUInt atIndex:7]; /* replaces it */
  [values setConstantValues:pair type:MTLDataTypeFloat withRange:NSMakeRange(3, 2)];
  [values setConstantValue:&yes type:MTLDataTypeBool withName:@"flag"];
  NSError *error = nil;
  MTLFunctionConstantValues *copy = [[values copy] autorelease];
  [values reset];
  id<MTLFunction> function = [[library newFunctionWithName:@"constants" constantValues:copy error:&error] autorelease];
#ifdef __APPLE__
  CHECK(function == nil && error.code == MTLLibraryErrorUnsupported); /* Apple's class cannot be read */
#else
  id<MTLComputePipelineState> pipeline = [[device newComputePipelineStateWithFunction:function error:NULL] autorelease];
  id<MTLBuffer> out = buffer_of(device, 8 * sizeof(soft_constant));
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline];
  [encoder setBuffer:out offset:0 atIndex:0];
  [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
  [encoder endEncoding];
  run(commands);
  const soft_constant *seen = out.contents;
  CHECK(seen[0].index == 7 && seen[0].type == MTLDataTypeUInt && seen[0].name == NULL);
  CHECK(memcmp(seen[0].value, &second, 4) == 0);
  CHECK(seen[1].index == 3 && memcmp(seen[1].value, pair, 4) == 0);
  CHECK(seen[2].index == 4 && memcmp(seen[2].value, pair + 1, 4) == 0);
  CHECK(strcmp(seen[3].name, "flag") == 0 && seen[3].type == MTLDataTypeBool && seen[3].value[0] == 1);
  CHECK(seen[4].type == 0);

  CHECK([library newFunctionWithName:@"special" constantValues:values error:&error] == nil);
  CHECK(error.code == MTLLibraryErrorCompileFailure);
  CHECK_TEXT([error localizedDescription], @"constant 0 has no value");
  CHECK([library newFunctionWithName:@"absent" constantValues:copy error:&error] == nil);
  CHECK([error.domain isEqualToString:MTLLibraryErrorDomain] && error.code == MTLLibraryErrorFunctionNotFound);
  RAISES_INVALID(@"MTLFunctionConstantValues", @"type (1)",
                 [values setConstantValue:&first type:(MTLDataType)1 atIndex:0]);
#endif
}

/* ----------------------------------------------------------------------------------------------- command buffers -- */

CASE(a_command_buffer_goes_through_its_states) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  queue.label = @"queue";
  CHECK((id)queue.device == (id)device && [queue.label isEqualToString:@"queue"]);
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  CHECK((id)commands.device == (id)device && (id)commands.commandQueue == (id)queue && commands.retainedReferences);
  CHECK(commands.status == MTLCommandBufferStatusNotEnqueued && commands.GPUStartTime == 0);
  [commands enqueue];
  [commands enqueue];
  CHECK(commands.status == MTLCommandBufferStatusEnqueued);
  encode(commands, @"wait", [NSArray array]);
  mock_gate_close();
  [commands commit];
  CHECK(commands.status >= MTLCommandBufferStatusCommitted && commands.status <= MTLCommandBufferStatusScheduled);
  [commands waitUntilScheduled];
  CHECK(mock_gate_await(1));
  CHECK(commands.status == MTLCommandBufferStatusScheduled);
  CHECK(commands.error == nil && commands.GPUEndTime == 0 && commands.kernelStartTime > 0);
  mock_gate_open();
  [commands waitUntilCompleted];
  CHECK(commands.status == MTLCommandBufferStatusCompleted);
  CHECK(commands.kernelStartTime <= commands.kernelEndTime && commands.kernelEndTime <= commands.GPUStartTime);
  CHECK(commands.GPUStartTime <= commands.GPUEndTime);
  [commands waitUntilScheduled];
  [commands waitUntilCompleted];
}

CASE(handlers_run_in_order_and_before_the_wait_returns) {
  id<MTLCommandBuffer> commands = [queue_of(any_device()) commandBuffer];
  __block int step = 0;
  __block bool ordered = true;
  for (int i = 0; i < 3; i++) {
    [commands addScheduledHandler:^(id<MTLCommandBuffer> seen) {
      ordered = ordered && seen.status == MTLCommandBufferStatusScheduled && step++ == i;
    }];
    [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
      [seen waitUntilCompleted]; /* it is, but for its handlers */
      usleep(2000);
      ordered = ordered && seen.status == MTLCommandBufferStatusCompleted && step++ == 3 + i;
    }];
  }
  run(commands);
  CHECK(ordered && step == 6);
}

CASE(a_failed_command_buffer_calls_its_handlers) {
  id<MTLCommandBuffer> commands = [queue_of(device_with("fail_command_buffer=1:timeout")) commandBuffer];
  __block NSInteger code = 0;
  [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
    code = seen.error.code;
  }];
  run(commands);
  CHECK(code == MTLCommandBufferErrorTimeout);
}

/* Puts a digit behind the others when the command buffer ends. */
static void note_end(id<MTLCommandBuffer> commands, int *order, int digit) {
  [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
    (void)seen;
    *order = *order * 10 + digit;
  }];
}

CASE(command_buffers_run_in_the_order_of_enqueue) {
  id<MTLCommandQueue> queue = queue_of(any_device());
  id<MTLCommandBuffer> first = [queue commandBuffer], second = [queue commandBuffer], third = [queue commandBuffer];
  int order = 0;
  note_end(first, &order, 1);
  note_end(second, &order, 2);
  note_end(third, &order, 3);
  [first enqueue];
  [second enqueue];
  [third commit];
  [second commit];
  usleep(5000);
  CHECK(second.status == MTLCommandBufferStatusCommitted && order == 0); /* they wait for the first */
  [first commit];
  [third waitUntilCompleted];
  CHECK(order == 123);
}

CASE(an_enqueued_command_buffer_that_is_dropped_holds_nobody_up) {
  id<MTLCommandQueue> queue = queue_of(any_device());
  id<MTLCommandBuffer> next, last;
  @autoreleasepool {
    [[queue commandBuffer] enqueue];
    next = [[queue commandBuffer] retain];
    [next enqueue];
    [[queue commandBuffer] enqueue]; /* between two others */
    last = [[queue commandBuffer] retain];
    [last enqueue];
    [[queue commandBuffer] enqueue]; /* the newest */
  }
  [next commit];
  run(last);
  CHECK(next.status == MTLCommandBufferStatusCompleted && last.status == MTLCommandBufferStatusCompleted);
  id<MTLCommandBuffer> after = [queue commandBuffer];
  run(after);
  CHECK(after.status == MTLCommandBufferStatusCompleted);
  [next release];
  [last release];
}

static void *take_command_buffer(void *queue) {
  @autoreleasepool {
    return [[(id<MTLCommandQueue>)queue commandBuffer] retain];
  }
}

CASE(the_bound_blocks_until_one_completes) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = [[device newCommandQueueWithMaxCommandBufferCount:2] autorelease];
  id<MTLCommandBuffer> first = [queue commandBuffer];
  @autoreleasepool {
    [queue commandBuffer]; /* dropped uncommitted: its place is free again */
  }
  id<MTLCommandBuffer> second = [queue commandBuffer];
  encode(first, @"wait", [NSArray array]);
  mock_gate_close();
  [first commit];
  CHECK(mock_gate_await(1));
  pthread_t thread;
  void *third = NULL;
  pthread_create(&thread, NULL, take_command_buffer, queue);
  usleep(20000);
#ifndef __APPLE__
  CHECK(pthread_tryjoin_np(thread, &third) != 0);
#endif
  mock_gate_open();
  pthread_join(thread, &third);
  CHECK(third && first.status == MTLCommandBufferStatusCompleted && second.status == MTLCommandBufferStatusNotEnqueued);
  [(id)third release];
  RAISES_INVALID(@"newCommandQueueWithMaxCommandBufferCount:", @"maxCommandBufferCount is 0",
                 [device newCommandQueueWithMaxCommandBufferCount:0]);
}

CASE(a_handler_that_would_wait_for_itself_raises) {
  id<MTLCommandQueue> queue = [[any_device() newCommandQueueWithMaxCommandBufferCount:2] autorelease];
  id<MTLCommandBuffer> commands = [queue commandBuffer], other = [queue commandBuffer];
  __block bool checked = false;
  [commands addScheduledHandler:^(id<MTLCommandBuffer> seen) {
    RAISES_STATE(@"waitUntilCompleted", @"this thread is the one to complete", [seen waitUntilCompleted]);
    RAISES_STATE(@"waitUntilScheduled", @"this thread is the one to schedule", [other waitUntilScheduled]);
    RAISES_STATE(@"commandBuffer", @"2 command buffers are not complete", [queue commandBuffer]);
    checked = true;
  }];
  [commands enqueue];
  [other commit];
  run(commands);
  [other waitUntilCompleted];
  CHECK(checked);
}

CASE(a_handler_may_submit_more) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = [[device newCommandQueueWithMaxCommandBufferCount:1] autorelease];
  id<MTLBuffer> out = buffer_of(device, 4);
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
    id<MTLCommandBuffer> next = [[seen commandQueue] commandBuffer];
    id<MTLBlitCommandEncoder> encoder = [next blitCommandEncoder];
    [encoder fillBuffer:out range:NSMakeRange(0, 4) value:9];
    [encoder endEncoding];
    [next commit];
  }];
  run(commands);
  run([queue commandBuffer]);
  CHECK(((char *)out.contents)[0] == 9);
}

/* --------------------------------------------------------------------------------------------------- caller-runs -- */

/* Whether a caller who waits executes what it waits for: not where execution is asynchronous. */
static bool callers_run(void) { return getenv("MOCK_MODE") == NULL; }

/* Commits it without waking a thread, runs it here as far as that goes, waits. Whether it ran here. */
static bool runs_here(id<MTLCommandBuffer> commands) {
  __block pthread_t runner;
  __block bool handled = false;
  [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
    (void)seen;
    runner = pthread_self();
    handled = true;
  }];
  SoftMetalCommitWithoutWaking(commands);
  SoftMetalRun(commands);
  [commands waitUntilCompleted];
  CHECK(handled && commands.status == MTLCommandBufferStatusCompleted);
  return pthread_equal(runner, pthread_self());
}

static bool runs_kernel_here(id<MTLCommandQueue> queue, NSString *kernel) {
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  encode(commands, kernel, [NSArray array]);
  return runs_here(commands);
}

CASE(a_waiting_caller_runs_what_any_thread_may_run) {
  id<MTLCommandQueue> queue = queue_of(any_device());
  CHECK(runs_here([queue commandBuffer]) == callers_run());
  CHECK(runs_kernel_here(queue, @"wait") == callers_run());
  CHECK(!runs_kernel_here(queue, @"own"));
  /* The stream's thread may be at the end of its work still, and take the next one along. */
  CHECK(harness_becomes_true(^bool {
    return runs_kernel_here(queue, @"wait") == callers_run();
  }));
}

CASE(a_waiting_caller_runs_what_comes_before_and_nothing_after) {
  id<MTLCommandQueue> queue = queue_of(any_device());
  id<MTLCommandBuffer> first = [queue commandBuffer], second = [queue commandBuffer], third = [queue commandBuffer];
  int order = 0;
  note_end(first, &order, 1);
  note_end(second, &order, 2);
  [second addCompletedHandler:^(id<MTLCommandBuffer> seen) {
    SoftMetalRun(third); /* no other one is completed meanwhile */
    CHECK(third.status <= (callers_run() ? MTLCommandBufferStatusCommitted : MTLCommandBufferStatusScheduled));
    CHECK(seen.status == MTLCommandBufferStatusCompleted);
  }];
  for (id<MTLCommandBuffer> commands in [NSArray arrayWithObjects:first, second, third, nil]) [commands enqueue];
  SoftMetalCommitWithoutWaking(third);
  SoftMetalCommitWithoutWaking(second);
  SoftMetalRun(second); /* there is nothing to run: the first is not committed */
  CHECK(order == 0);
  SoftMetalCommitWithoutWaking(first);
  SoftMetalRun(second);
  if (callers_run()) CHECK(order == 12 && second.status == MTLCommandBufferStatusCompleted);
  [third waitUntilCompleted];
  CHECK(order == 12 && second.status == MTLCommandBufferStatusCompleted);
}

CASE(a_waiting_caller_leaves_to_the_stream_what_that_is_at) {
  id<MTLCommandQueue> queue = queue_of(any_device());
  id<MTLCommandBuffer> first = [queue commandBuffer], second = [queue commandBuffer];
  encode(first, @"wait", [NSArray array]);
  mock_gate_close();
  [first commit];
  CHECK(mock_gate_await(1));
  SoftMetalCommitWithoutWaking(second);
  SoftMetalRun(second);
  CHECK(first.status == MTLCommandBufferStatusScheduled && second.status == MTLCommandBufferStatusCommitted);
  mock_gate_open();
  [second waitUntilCompleted];
  CHECK(second.status == MTLCommandBufferStatusCompleted);
}

static void *run_many(void *queue) {
  int *failed = calloc(1, sizeof *failed);
  for (int round = 0; round < 500; round++) {
    @autoreleasepool {
      id<MTLCommandBuffer> commands = [(id<MTLCommandQueue>)queue commandBuffer];
      encode(commands, round % 7 ? @"wait" : @"own", [NSArray array]);
      if (round % 3) {
        [commands commit];
      } else {
        SoftMetalCommitWithoutWaking(commands);
        SoftMetalRun(commands);
      }
      if (round % 2) [commands waitUntilCompleted];
      else [commands waitUntilScheduled];
      *failed += commands.error != nil;
    }
  }
  return failed;
}

CASE(threads_that_wait_and_the_stream_run_each_once) {
  enum { THREADS = 4 };
  id<MTLCommandQueue> queue = queue_of(any_device());
  int before = mock_executed();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run_many, queue);
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    CHECK(failed && *(int *)failed == 0);
    free(failed);
  }
  run([queue commandBuffer]);
  CHECK(mock_executed() == before + THREADS * 500);
}

/* ---------------------------------------------------------------------------------------------------- strictness -- */

CASE(calls_at_the_wrong_time_raise) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  void (^nothing)(id<MTLCommandBuffer>) = ^(id<MTLCommandBuffer> seen) {
    (void)seen;
  };
  RAISES_STATE(@"waitUntilCompleted", @"is not committed", [commands waitUntilCompleted]);
  RAISES_STATE(@"waitUntilScheduled", @"is not committed", [commands waitUntilScheduled]);
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  RAISES_STATE(@"computeCommandEncoder", @"open encoder", [commands computeCommandEncoder]);
  RAISES_STATE(@"computeCommandEncoderWithDispatchType:", @"open encoder",
               [commands computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent]);
  RAISES_STATE(@"blitCommandEncoder", @"open encoder", [commands blitCommandEncoder]);
  RAISES_STATE(@"commit", @"open encoder", [commands commit]);
  [encoder endEncoding];
  RAISES_STATE(@"endEncoding", @"has ended", [encoder endEncoding]);
  RAISES_INVALID(@"computeCommandEncoderWithDispatchType:", @"dispatchType (2)",
                 [commands computeCommandEncoderWithDispatchType:(MTLDispatchType)2]);
  RAISES_STATE(@"popDebugGroup", @"no debug group", [commands popDebugGroup]);
  [commands pushDebugGroup:@"group"];
  [commands popDebugGroup];
  [commands commit];
  RAISES_STATE(@"commit", @"is committed", [commands commit]);
  RAISES_STATE(@"enqueue", @"is committed", [commands enqueue]);
  RAISES_STATE(@"addCompletedHandler:", @"is committed", [commands addCompletedHandler:nothing]);
  RAISES_STATE(@"addScheduledHandler:", @"is committed", [commands addScheduledHandler:nothing]);
  RAISES_STATE(@"computeCommandEncoder", @"is committed", [commands computeCommandEncoder]);
  RAISES_STATE(@"blitCommandEncoder", @"is committed", [commands blitCommandEncoder]);
  [commands waitUntilCompleted];
  RAISES_STATE(@"commit", @"is committed", [commands commit]);
  CHECK(commands.status == MTLCommandBufferStatusCompleted);
}

CASE(an_ended_encoder_takes_no_calls) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputePipelineState> pipeline = pipeline_of(device, @"add");
  id<MTLBuffer> buffer = buffer_of(device, 64);
  const id<MTLBuffer> buffers[] = {buffer};
  const id<MTLResource> resources[] = {buffer};
  const NSUInteger offsets[] = {0};
  id<MTLComputeCommandEncoder> compute = [commands computeCommandEncoder];
  [compute endEncoding];
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  [blit endEncoding];
#define ENDED(selector, call) RAISES_STATE(selector, @"has ended", call)
  ENDED(@"setComputePipelineState:", [compute setComputePipelineState:pipeline]);
  ENDED(@"setBuffer:offset:atIndex:", [compute setBuffer:buffer offset:0 atIndex:0]);
  ENDED(@"setBuffers:offsets:withRange:", [compute setBuffers:buffers offsets:offsets withRange:NSMakeRange(0, 1)]);
  ENDED(@"setBufferOffset:atIndex:", [compute setBufferOffset:0 atIndex:0]);
  ENDED(@"setBytes:length:atIndex:", [compute setBytes:"1234" length:4 atIndex:0]);
  ENDED(@"setThreadgroupMemoryLength:atIndex:", [compute setThreadgroupMemoryLength:16 atIndex:0]);
  ENDED(@"dispatchThreadgroups:threadsPerThreadgroup:", [compute dispatchThreadgroups:one threadsPerThreadgroup:one]);
  ENDED(@"dispatchThreads:threadsPerThreadgroup:", [compute dispatchThreads:one threadsPerThreadgroup:one]);
  ENDED(@"useResources:count:usage:", [compute useResource:buffer usage:MTLResourceUsageRead]);
  ENDED(@"memoryBarrierWithScope:", [compute memoryBarrierWithScope:MTLBarrierScopeBuffers]);
  ENDED(@"memoryBarrierWithResources:count:", [compute memoryBarrierWithResources:resources count:1]);
  ENDED(@"pushDebugGroup:", [compute pushDebugGroup:@"group"]);
  ENDED(@"popDebugGroup", [compute popDebugGroup]);
  ENDED(@"insertDebugSignpost:", [compute insertDebugSignpost:@"here"]);
  ENDED(@"fillBuffer:range:value:", [blit fillBuffer:buffer range:NSMakeRange(0, 4) value:0]);
  ENDED(@"copyFromBuffer:", [blit copyFromBuffer:buffer sourceOffset:0 toBuffer:buffer destinationOffset:8 size:4]);
  ENDED(@"synchronizeResource:", [blit synchronizeResource:buffer]);
#undef ENDED
}

CASE(an_encoder_released_before_its_end_spoils_the_commit) {
  id<MTLCommandBuffer> commands = [queue_of(any_device()) commandBuffer];
  @autoreleasepool {
    [commands blitCommandEncoder].label = @"forgotten";
  }
  RAISES_STATE(@"commit", @"'forgotten' was released without endEncoding", [commands commit]);
  CHECK(commands.status == MTLCommandBufferStatusNotEnqueued);
}

CASE(wrong_arguments_of_a_compute_encoder_raise) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  id<MTLBuffer> buffer = buffer_of(device, 64);
  char bytes[4097] = {0};
  RAISES_INVALID(@"setBuffer:offset:atIndex:", @"index (31)", [encoder setBuffer:buffer offset:0 atIndex:31]);
  RAISES_INVALID(@"setBuffer:offset:atIndex:", @"index (31)", [encoder setBuffer:nil offset:0 atIndex:31]);
  RAISES_INVALID(@"setBuffer:offset:atIndex:", @"offset (64)", [encoder setBuffer:buffer offset:64 atIndex:0]);
  RAISES_INVALID(@"setBuffer:offset:atIndex:", @"offset (", [encoder setBuffer:buffer offset:NSUIntegerMax atIndex:0]);
  RAISES_STATE(@"setBufferOffset:atIndex:", @"no buffer is set at index 0", [encoder setBufferOffset:0 atIndex:0]);
  [encoder setBytes:bytes length:4096 atIndex:0];
  RAISES_STATE(@"setBufferOffset:atIndex:", @"no buffer is set at index 0", [encoder setBufferOffset:0 atIndex:0]);
  [encoder setBuffer:buffer offset:60 atIndex:0];
  RAISES_INVALID(@"setBufferOffset:atIndex:", @"offset (64)", [encoder setBufferOffset:64 atIndex:0]);
  RAISES_INVALID(@"setBufferOffset:atIndex:", @"index (31)", [encoder setBufferOffset:0 atIndex:31]);
  const id<MTLBuffer> buffers[] = {buffer, nil};
  const NSUInteger offsets[] = {0, 0};
  [encoder setBuffers:buffers offsets:offsets withRange:NSMakeRange(29, 2)];
  RAISES_INVALID(@"setBuffers:offsets:withRange:", @"range (2 from 30)",
                 [encoder setBuffers:buffers offsets:offsets withRange:NSMakeRange(30, 2)]);
  RAISES_INVALID(@"setBuffers:offsets:withRange:", @"range (",
                 [encoder setBuffers:buffers offsets:offsets withRange:(NSRange){NSUIntegerMax, 2}]);
  RAISES_INVALID(@"setBytes:length:atIndex:", @"length (4097)", [encoder setBytes:bytes length:4097 atIndex:0]);
  RAISES_INVALID(@"setBytes:length:atIndex:", @"length is 0", [encoder setBytes:bytes length:0 atIndex:0]);
  RAISES_INVALID(@"setBytes:length:atIndex:", @"index (31)", [encoder setBytes:bytes length:1 atIndex:31]);
  const void *nothing = NULL;
  RAISES_INVALID(@"setBytes:length:atIndex:", @"bytes", [encoder setBytes:nothing length:1 atIndex:0]);
  NSString *threadgroup = @"setThreadgroupMemoryLength:atIndex:";
  RAISES_INVALID(threadgroup, @"length (32769) exceeds", [encoder setThreadgroupMemoryLength:32769 atIndex:0]);
  RAISES_INVALID(threadgroup, @"index (31)", [encoder setThreadgroupMemoryLength:16 atIndex:31]);
  RAISES_INVALID(@"memoryBarrierWithScope:", @"scope (4)",
                 [encoder memoryBarrierWithScope:MTLBarrierScopeRenderTargets]);
  RAISES_INVALID(@"useResources:count:usage:", @"usage (0)", [encoder useResource:buffer usage:0]);
  RAISES_STATE(@"popDebugGroup", @"no debug group", [encoder popDebugGroup]);
  [encoder endEncoding];
}

CASE(wrong_dispatches_raise) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  NSString *groups = @"dispatchThreadgroups:threadsPerThreadgroup:";
  NSString *threads = @"dispatchThreads:threadsPerThreadgroup:";
  RAISES_STATE(groups, @"no compute pipeline", [encoder dispatchThreadgroups:one threadsPerThreadgroup:one]);
  [encoder setComputePipelineState:pipeline_of(device, @"narrow")];
#define GROUPS(grid, group) [encoder dispatchThreadgroups:grid threadsPerThreadgroup:group]
#define THREADS(grid, group) [encoder dispatchThreads:grid threadsPerThreadgroup:group]
  RAISES_INVALID(threads, @"threadsPerGrid (4294967296", THREADS(MTLSizeMake((NSUInteger)1 << 32, 1, 1), one));
  RAISES_INVALID(groups, @"threadsPerThreadgroup (1 x 1 x 0)", GROUPS(one, MTLSizeMake(1, 1, 0)));
  RAISES_INVALID(groups, @"threadsPerThreadgroup (1025", GROUPS(one, MTLSizeMake(1025, 1, 1)));
  RAISES_INVALID(groups, @"65 threads; kernel 'narrow' takes at most 64", GROUPS(one, MTLSizeMake(65, 1, 1)));
  RAISES_INVALID(threads, @"128 threads", THREADS(one, MTLSizeMake(8, 8, 2)));
  [encoder setThreadgroupMemoryLength:16384 atIndex:0];
  [encoder setThreadgroupMemoryLength:16384 atIndex:1];
  GROUPS(one, MTLSizeMake(64, 1, 1));
  [encoder setComputePipelineState:pipeline_of(device, @"hoard")];
  RAISES_INVALID(groups, @"threadgroup memory is 49152 bytes", GROUPS(one, one));
  [encoder setThreadgroupMemoryLength:0 atIndex:1];
  GROUPS(one, one);
#undef GROUPS
#undef THREADS
  [encoder endEncoding];
  run(commands);
  CHECK(commands.status == MTLCommandBufferStatusCompleted);
}

CASE(wrong_blits_raise) {
  id<MTLDevice> device = any_device();
  id<MTLBlitCommandEncoder> encoder = [[queue_of(device) commandBuffer] blitCommandEncoder];
  id<MTLBuffer> a = buffer_of(device, 64), b = buffer_of(device, 32);
#define COPY(source, from, destination, to, bytes) \
  [encoder copyFromBuffer:source sourceOffset:from toBuffer:destination destinationOffset:to size:bytes]
  NSString *copy = @"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:";
  RAISES_INVALID(copy, @"the source is empty", COPY(a, 0, b, 0, 0));
  RAISES_INVALID(copy, @"the source is 8 bytes from 60", COPY(a, 60, b, 0, 8));
  RAISES_INVALID(copy, @"the destination is 36 bytes from 0", COPY(a, 0, b, 0, 36));
  RAISES_INVALID(copy, @"the source is", COPY(a, NSUIntegerMax - 3, b, 0, 8));
  RAISES_INVALID(copy, @"sourceOffset (2)", COPY(a, 2, b, 0, 4));
  RAISES_INVALID(copy, @"destinationOffset (2)", COPY(a, 0, b, 2, 4));
  RAISES_INVALID(copy, @"size (6)", COPY(a, 0, b, 0, 6));
  RAISES_INVALID(copy, @"overlap", COPY(a, 0, a, 12, 16));
  RAISES_INVALID(copy, @"overlap", COPY(a, 12, a, 0, 16));
  id<MTLBuffer> nothing = nil;
  RAISES_INVALID(copy, @"sourceBuffer must not be nil", COPY(nothing, 0, b, 0, 4));
  RAISES_INVALID(copy, @"destinationBuffer must not be nil", COPY(a, 0, nothing, 0, 4));
#undef COPY
  NSString *fill = @"fillBuffer:range:value:";
  RAISES_INVALID(fill, @"range is empty", [encoder fillBuffer:a range:NSMakeRange(0, 0) value:1]);
  RAISES_INVALID(fill, @"range is 68 bytes", [encoder fillBuffer:a range:NSMakeRange(0, 68) value:1]);
  RAISES_INVALID(fill, @"range.location (1)", [encoder fillBuffer:a range:NSMakeRange(1, 4) value:1]);
  RAISES_INVALID(fill, @"range.length (5)", [encoder fillBuffer:a range:NSMakeRange(0, 5) value:1]);
  RAISES_INVALID(@"synchronizeResource:", @"managed", [encoder synchronizeResource:a]);
  [encoder endEncoding];
}

CASE(objects_of_another_device_raise) {
  id<MTLDevice> device = any_device(), other = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  id<MTLBuffer> mine = buffer_of(device, 64), theirs = buffer_of(other, 64);
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  NSString *said = @"belongs to another device";
  RAISES_INVALID(@"setComputePipelineState:", said, [encoder setComputePipelineState:pipeline_of(other, @"add")]);
  RAISES_INVALID(@"setBuffer:offset:atIndex:", said, [encoder setBuffer:theirs offset:0 atIndex:0]);
  RAISES_INVALID(@"useResources:count:usage:", said, [encoder useResource:theirs usage:MTLResourceUsageRead]);
  const id<MTLResource> resources[] = {theirs};
  RAISES_INVALID(@"memoryBarrierWithResources:", said, [encoder memoryBarrierWithResources:resources count:1]);
  [encoder endEncoding];
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  RAISES_INVALID(@"copyFromBuffer:", said,
                 [blit copyFromBuffer:theirs sourceOffset:0 toBuffer:mine destinationOffset:0 size:4]);
  RAISES_INVALID(@"copyFromBuffer:", said,
                 [blit copyFromBuffer:mine sourceOffset:0 toBuffer:theirs destinationOffset:0 size:4]);
  RAISES_INVALID(@"fillBuffer:", said, [blit fillBuffer:theirs range:NSMakeRange(0, 4) value:0]);
  [blit endEncoding];
  id<MTLFunction> function = function_of(other, @"add");
  NSString *make = @"newComputePipelineStateWithFunction:error:";
  RAISES_INVALID(make, said, [device newComputePipelineStateWithFunction:function error:NULL]);
  id<MTLFunction> nothing = nil;
  RAISES_INVALID(make, @"must not be nil", [device newComputePipelineStateWithFunction:nothing error:NULL]);
  RAISES_INVALID(make, @"not of the software device",
                 [device newComputePipelineStateWithFunction:(id<MTLFunction>)mine error:NULL]);
}

/* ------------------------------------------------------------------------------------------------------ lifetime -- */

CASE(everything_is_dropped_right_after_the_commit) {
  static _Atomic(bool) done;
  atomic_store(&done, false);
  id<MTLDevice> device = SoftMetalCreateDevice("mock", NULL, NULL);
  id<MTLBuffer> out = nil;
  mock_gate_close();
  @autoreleasepool {
    id<MTLCommandQueue> queue = [device newCommandQueue];
    id<MTLBuffer> a = [device newBufferWithLength:400 options:SHARED];
    id<MTLBuffer> b = [device newBufferWithLength:400 options:SHARED];
    for (int i = 0; i < 100; i++) ((float *)a.contents)[i] = 1, ((float *)b.contents)[i] = 2;
    out = [device newBufferWithLength:400 options:SHARED];
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    encode(commands, @"wait", [NSArray array]);
    encode_add(commands, a, b, out, 100);
    [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
      atomic_store(&done, seen.error == nil);
    }];
    [commands commit];
    [a release];
    [b release];
    [queue release];
    [device release];
  }
  CHECK(mock_gate_await(1));
  CHECK(((float *)out.contents)[99] == 0);
  mock_gate_open();
  CHECK(harness_becomes_true(^bool {
    return atomic_load(&done);
  }));
  CHECK(((float *)out.contents)[99] == 3);
  /* The buffer keeps its memory, its device and the device's figures, configuration and backend. The mock counts itself
   * and the memory, too. */
  CHECK(harness_becomes_true(^bool {
    return harness_live() == 8;
  }));
  [out release];
}

CASE(a_command_buffer_keeps_its_buffers_until_it_is_complete_and_no_longer) {
  id<MTLDevice> device = any_device();
  NSUInteger length = (NSUInteger)sysconf(_SC_PAGESIZE);
  void *pages = pages_of(length);
  __block int freed = 0;
  id<MTLCommandBuffer> commands = [[queue_of(device) commandBuffer] retain];
  mock_gate_close();
  @autoreleasepool {
    id<MTLBuffer> buffer = [device newBufferWithBytesNoCopy:pages
                                                     length:length
                                                    options:SHARED
                                                deallocator:^(void *pointer, NSUInteger size) {
                                                  (void)pointer, (void)size;
                                                  freed++;
                                                }];
    encode(commands, @"wait", [NSArray arrayWithObject:buffer]);
    [buffer release];
  }
  [commands commit];
  CHECK(mock_gate_await(1));
  CHECK(freed == 0 && device.currentAllocatedSize == length);
  mock_gate_open();
  [commands waitUntilCompleted];
  CHECK(freed == 1 && device.currentAllocatedSize == 0); /* though the command buffer is still there */
  [commands release];
  munmap(pages, length);
}

CASE(a_dropped_command_buffer_drops_what_it_recorded) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  @autoreleasepool {
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    encode(commands, @"wait", [NSArray arrayWithObject:buffer_of(device, 64)]);
    [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
      (void)seen;
      CHECK(!"a command buffer that was never committed completes");
    }];
    CHECK(device.currentAllocatedSize > 0);
  }
  CHECK(device.currentAllocatedSize == 0);
}

CASE(without_retained_references_an_early_release_is_an_error) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  int before = mock_executed();
  for (int moment = 0; moment < 3; moment++) { /* released before the commit, in flight, or a pipeline in flight */
    id<MTLCommandBuffer> commands = [queue commandBufferWithUnretainedReferences];
    CHECK(!commands.retainedReferences);
    id<MTLBuffer> buffer = [device newBufferWithLength:64 options:SHARED];
    buffer.label = @"hasty";
    id<MTLComputePipelineState> pipeline = [pipeline_of(device, @"wait") retain];
    mock_gate_close();
    @autoreleasepool {
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      [encoder setComputePipelineState:pipeline];
      [encoder setBuffer:buffer offset:0 atIndex:0];
      [encoder dispatchThreadgroups:one threadsPerThreadgroup:one];
      [encoder endEncoding];
    }
    if (moment == 0) [buffer release];
    [commands commit];
    if (moment > 0) CHECK(mock_gate_await(1));
    if (moment == 1) [buffer release];
    if (moment == 2) CHECK(device.currentAllocatedSize > 0);
    mock_gate_open();
    [commands waitUntilCompleted];
    CHECK(moment == 2 ? commands.error == nil : commands.error.code == MTLCommandBufferErrorInvalidResource);
    if (moment < 2) CHECK_TEXT([commands.error localizedDescription], @"buffer 'hasty' was destroyed too early");
    if (moment == 2) [buffer release];
    [pipeline release];
  }
  CHECK(mock_executed() == before + 2); /* the one released before the commit did not run */
}

CASE(without_retained_references_a_pipeline_released_in_flight_is_an_error) {
  id<MTLDevice> device = any_device();
  id<MTLCommandBuffer> commands = [queue_of(device) commandBufferWithUnretainedReferences];
  mock_gate_close();
  @autoreleasepool {
    encode(commands, @"wait", [NSArray array]);
    [commands commit];
    CHECK(mock_gate_await(1));
  }
  mock_gate_open();
  [commands waitUntilCompleted];
  CHECK(commands.error.code == MTLCommandBufferErrorInvalidResource);
  CHECK_TEXT([commands.error localizedDescription], @"pipeline 'wait' was destroyed too early");
}

CASE(the_last_references_go_on_the_streams_thread) {
  for (int round = 0; round < 50; round++) {
    id<MTLDevice> device = SoftMetalCreateDevice("mock", NULL, NULL);
    id<MTLBuffer> buffer = [device newBufferWithLength:64 options:SHARED];
    @autoreleasepool {
      id<MTLCommandQueue> queue = [device newCommandQueue];
      id<MTLCommandBuffer> commands = [queue commandBuffer];
      [commands retain];
      [commands addCompletedHandler:^(id<MTLCommandBuffer> seen) {
        [buffer release];
        [queue release];
        [device release];
        [seen release];
      }];
      [commands commit];
    }
  }
  CHECK(harness_becomes_true(^bool {
    return harness_live() == 0;
  }));
}

CASE(after_a_wait_nothing_hangs_on_the_stream) {
  for (int round = 0; round < 200; round++) {
    @autoreleasepool {
      id<MTLDevice> device = any_device();
      id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
      encode(commands, @"narrow", [NSArray arrayWithObject:buffer_of(device, 16)]);
      run(commands);
    }
    if (harness_live() != 0) break;
  }
  CHECK(harness_live() == 0); /* at once, with no wait for the thread */
}

CASE(ten_thousand_command_buffers) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  id<MTLBuffer> a = floats(device, 4, 1), b = floats(device, 4, 1);
  id<MTLComputePipelineState> pipeline = pipeline_of(device, @"add");
  int failed = 0, before = mock_executed();
  for (int i = 0; i < 10000; i++) {
    @autoreleasepool {
      id<MTLCommandBuffer> commands = [queue commandBuffer];
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      [encoder setComputePipelineState:pipeline];
      [encoder setBuffer:a offset:0 atIndex:0];
      [encoder setBuffer:b offset:0 atIndex:1];
      [encoder setBuffer:i % 2 ? a : b offset:0 atIndex:2];
      const uint32_t count = 4;
      [encoder setBytes:&count length:4 atIndex:3];
      [encoder dispatchThreads:one threadsPerThreadgroup:one];
      [encoder endEncoding];
      [commands commit];
      if (i % 1000 == 999) [commands waitUntilCompleted];
      failed += commands.status == MTLCommandBufferStatusError;
    }
  }
  CHECK(failed == 0 && mock_executed() == before + 10000);
}

CASE(a_thousand_queues) {
  id<MTLDevice> device = any_device();
  NSMutableArray *queues = [NSMutableArray array];
  for (int i = 0; i < 1000; i++) {
    id<MTLCommandQueue> queue = [device newCommandQueue];
    if (!queue) break;
    [queues addObject:queue];
    [queue release];
  }
  CHECK([queues count] == 1000);
  for (id<MTLCommandQueue> queue in queues) {
    @autoreleasepool {
      [[queue commandBuffer] commit];
    }
  }
}

typedef struct submitter {
  id<MTLDevice> device;
  id<MTLCommandQueue> queue;
  int wrong;
} submitter;

static void *submit_many(void *argument) {
  submitter *submitter = argument;
  @autoreleasepool {
    id<MTLDevice> device = submitter->device;
    id<MTLComputePipelineState> pipeline = pipeline_of(device, @"add");
    for (int i = 0; i < 500; i++) {
      @autoreleasepool {
        id<MTLBuffer> a = floats(device, 8, (float)i), out = buffer_of(device, 32);
        id<MTLCommandBuffer> commands = [submitter->queue commandBuffer];
        id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
        [encoder setComputePipelineState:pipeline];
        [encoder setBuffer:a offset:0 atIndex:0];
        [encoder setBuffer:a offset:0 atIndex:1];
        [encoder setBuffer:out offset:0 atIndex:2];
        const uint32_t count = 8;
        [encoder setBytes:&count length:4 atIndex:3];
        [encoder dispatchThreads:one threadsPerThreadgroup:one];
        [encoder endEncoding];
        run(commands);
        submitter->wrong += commands.error != nil || ((float *)out.contents)[7] != 2 * ((float)i + 7);
      }
    }
  }
  return NULL;
}

/* Threads that Foundation has never seen, each with pools of its own. */
static int wrong_results_of_four_threads(submitter *submitters) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, submit_many, &submitters[i]);
  int wrong = 0;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    wrong += submitters[i].wrong;
  }
  return wrong;
}

CASE(four_threads_on_one_queue) {
  id<MTLDevice> device = any_device();
  id<MTLCommandQueue> queue = queue_of(device);
  submitter submitters[4];
  for (int i = 0; i < 4; i++) submitters[i] = (submitter){device, queue, 0};
  CHECK(wrong_results_of_four_threads(submitters) == 0);
  CHECK(device.currentAllocatedSize == 0);
}

CASE(four_threads_on_four_devices) {
  submitter submitters[4];
  for (int i = 0; i < 4; i++) {
    id<MTLDevice> device = any_device();
    submitters[i] = (submitter){device, queue_of(device), 0};
  }
  CHECK(wrong_results_of_four_threads(submitters) == 0);
}

/* --------------------------------------------------------------------------------------------------- other modes -- */

/* Ends the process while a command buffer runs and others wait. */
static int exit_in_flight(void) {
  mock_gate_close();
  @autoreleasepool {
    id<MTLDevice> device = any_device();
    id<MTLCommandQueue> queue = queue_of(device);
    for (int i = 0; i < 8; i++) {
      id<MTLCommandBuffer> commands = [queue commandBuffer];
      encode(commands, @"wait", [NSArray arrayWithObject:buffer_of(device, 1 << 20)]);
      [commands commit];
    }
    if (!mock_gate_await(1)) return 1;
  }
  mock_gate_open();
  printf("in flight\n");
  return 0;
}

/* Leaks on purpose: the live counters and the leak sanitizer must say so. */
static int leak(void) {
  @autoreleasepool {
    for (int i = 0; i < 10; i++) SoftMetalCreateDevice("mock", NULL, NULL);
  }
  printf("%lld live\n", (long long)harness_live());
  return 0;
}

/* Autoreleases with no pool in place: Foundation must say so. */
static int autorelease_without_a_pool(void) {
  id<MTLDevice> device = SoftMetalCreateDevice("mock", NULL, NULL);
  id<MTLCommandQueue> queue = [device newCommandQueue];
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  printf("%s\n", commands ? "autoreleased" : "no command buffer");
  return 0;
}

int main(int argc, char **argv) {
  const char *argument = argc > 1 ? argv[1] : "";
  if (strcmp(argument, "--exit-in-flight") == 0) return exit_in_flight();
  if (strcmp(argument, "--leak") == 0) return leak();
  if (strcmp(argument, "--autorelease-without-a-pool") == 0) return autorelease_without_a_pool();
  return harness_run(argc > 1 ? argument : NULL);
}
