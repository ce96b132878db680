#import "SoftDevice.h"

#import "SoftBuffer.h"
#import "SoftError.h"
#import "SoftFunction.h"
#import "SoftLibrary.h"
#import "SoftPages.h"
#import "SoftPipeline.h"
#import "SoftQueue.h"
#import "SoftValidation.h"
#import "softmetal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Apple's limits for an M1 (Metal feature set tables). */
enum { MAX_THREADS_PER_THREADGROUP = 1024, MAX_THREADGROUP_MEMORY = 32768, MAX_COMMAND_BUFFERS = 64 };

@implementation SoftDevice

SOFT_COUNTED(SoftDevice)

- (instancetype)initWithConfiguration:(SoftConfiguration *)configuration executor:(const soft_executor *)executor {
  static _Atomic(uint64_t) devices;
  self = [super init];
  if (!self) return nil;
  _executor = executor;
  _configuration = [configuration retain];
  _memory = [[SoftMemory alloc] initWithLimit:[configuration memoryLimit]];
  if ([configuration schedule]) soft_schedule_begin([configuration schedule], [configuration scheduledThreads]);
  _registryID = UINT64_C(0x69726f6e00000000) + ++devices; /* "iron" and a number: never an IOKit registry entry */
  return self;
}

- (void)dealloc {
  if ([_configuration schedule]) soft_schedule_end();
  [_configuration release];
  [_memory release];
  [super dealloc];
}

- (const soft_executor *)executor {
  return _executor;
}

- (uint64_t)delay {
  return [_configuration delay];
}

- (NSUInteger)plannedErrorOfNextCommandBuffer {
  return [_configuration errorOfCommandBuffer:++_commandBuffers];
}

- (NSString *)name {
  uint32_t threads = _executor->threads();
  return [NSString stringWithFormat:@"ironbridge software device (%s (%u thread%s))", _executor->name, threads,
                                    threads == 1 ? "" : "s"];
}

- (uint64_t)registryID {
  return _registryID;
}

- (MTLSize)maxThreadsPerThreadgroup {
  return MTLSizeMake(MAX_THREADS_PER_THREADGROUP, MAX_THREADS_PER_THREADGROUP, MAX_THREADS_PER_THREADGROUP);
}

- (NSUInteger)maxThreadgroupMemoryLength {
  return MAX_THREADGROUP_MEMORY;
}

- (BOOL)isLowPower {
  return NO;
}

- (BOOL)isHeadless {
  return YES;
}

- (BOOL)isRemovable {
  return NO;
}

- (BOOL)hasUnifiedMemory {
  return YES;
}

- (uint64_t)recommendedMaxWorkingSetSize {
  uint64_t memory = soft_machine_memory() / 4 * 3;
  return memory < [_configuration memoryLimit] ? memory : [_configuration memoryLimit];
}

- (NSUInteger)maxBufferLength {
  return (NSUInteger)[_configuration maxBufferLength];
}

- (NSUInteger)currentAllocatedSize {
  return (NSUInteger)[_memory allocated];
}

/* The compute side of Apple7 (M1) and of Metal 3; nothing of the Mac2 family, which is about rendering. */
- (BOOL)supportsFamily:(MTLGPUFamily)family {
  return (family >= MTLGPUFamilyApple1 && family <= MTLGPUFamilyApple7) ||
         (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3) || family == MTLGPUFamilyMetal3;
}

- (id<MTLCommandQueue>)newCommandQueue {
  return [[SoftQueue alloc] initWithDevice:self bound:MAX_COMMAND_BUFFERS];
}

- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
  SOFT_REQUIRE(count > 0, @"maxCommandBufferCount is 0");
  return [[SoftQueue alloc] initWithDevice:self bound:count];
}

- (void)requireLength:(NSUInteger)length options:(MTLResourceOptions)options of:(SEL)selector {
  const MTLResourceOptions known =
      MTLResourceCPUCacheModeMask | MTLResourceStorageModeMask | MTLResourceHazardTrackingModeMask;
  MTLStorageMode storage = (options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
  if (length == 0) soft_invalid(self, selector, @"length is 0");
  if (length > self.maxBufferLength) {
    soft_invalid(self, selector, @"length (%" PRIu64 ") exceeds maxBufferLength (%" PRIu64 ")", (uint64_t)length,
                 (uint64_t)self.maxBufferLength);
  }
  if ((options & ~known) || storage > MTLStorageModePrivate) {
    soft_invalid(self, selector, @"options (%#" PRIx64 ") are not those of a buffer", (uint64_t)options);
  }
}

/* Counts one allocation and makes its storage unless it shall fail. */
- (SoftStorage *)newStorageOfLength:(NSUInteger)length {
  if ([_configuration failsAllocation:++_allocations]) return nil;
  return [[SoftStorage alloc] initWithLength:length memory:_memory];
}

- (SoftBuffer *)newBufferOver:(SoftStorage *)storage length:(NSUInteger)length options:(MTLResourceOptions)options {
  if (!storage) return nil;
  SoftBuffer *buffer = [[SoftBuffer alloc] initWithDevice:self storage:storage length:length options:options];
  [storage release];
  return buffer;
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  [self requireLength:length options:options of:_cmd];
  return [self newBufferOver:[self newStorageOfLength:length] length:length options:options];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void *)pointer
                             length:(NSUInteger)length
                            options:(MTLResourceOptions)options {
  SOFT_REQUIRE(pointer, @"pointer must not be NULL");
  [self requireLength:length options:options of:_cmd];
  SoftStorage *storage = [self newStorageOfLength:length];
  if (storage) memcpy([storage pointer], pointer, length);
  return [self newBufferOver:storage length:length options:options];
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void *pointer, NSUInteger length))deallocator {
  SOFT_REQUIRE(pointer, @"pointer must not be NULL");
  [self requireLength:length options:options of:_cmd];
  NSUInteger mask = soft_page_size() - 1;
  SOFT_REQUIRE(((uintptr_t)pointer & mask) == 0, @"pointer (%p) is not a multiple of the page size", pointer);
  SOFT_REQUIRE((length & mask) == 0, @"length (%" PRIu64 ") is not a multiple of the page size", (uint64_t)length);
  SOFT_REQUIRE((options & MTLResourceStorageModeMask) != MTLResourceStorageModePrivate,
               @"options ask for private storage, which cannot be the caller's");
  if ([_configuration failsAllocation:++_allocations]) return nil;
  SoftStorage *storage = [[SoftStorage alloc] initWithForeign:pointer
                                                       length:length
                                                       memory:_memory
                                                  deallocator:deallocator];
  return [self newBufferOver:storage length:length options:options];
}

- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error {
  SOFT_REQUIRE(source, @"source must not be nil");
  return [[SoftLibrary alloc] initWithDevice:self source:source options:options error:error];
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError **)error {
  SoftFunction *kernel = soft_require_function(self, _cmd, @"computeFunction", function, self);
  /* Whatever else can be wrong with a kernel was found when the function was made. */
  uint32_t memory = [kernel info].static_threadgroup_memory;
  if (memory > MAX_THREADGROUP_MEMORY) {
    NSString *said = [NSString stringWithFormat:@"its variables take %u bytes of threadgroup memory, the device has %d", memory,
                                                MAX_THREADGROUP_MEMORY];
    if (error) *error = soft_library_error(MTLLibraryErrorCompileFailure, said);
    return nil;
  }
  return [[SoftPipeline alloc] initWithDevice:self function:kernel];
}

@end

#ifdef GNUSTEP
/* GNUstep exports a _Block_copy that copies nothing, for those without a blocks runtime, and of two shared libraries a
 * process takes the one that its program named first. Handlers that stayed on a stack would be called when it is
 * gone. */
static BOOL blocks_are_copied(void) {
  int captured = 0;
  int (^on_stack)(void) = ^{
    return captured;
  };
  int (^copied)(void) = Block_copy(on_stack);
  BOOL moved = copied != on_stack;
  Block_release(copied);
  return moved;
}
#endif

id<MTLDevice> SoftMetalCreateDevice(const char *text, NSError **error) {
#ifdef GNUSTEP
  if (!blocks_are_copied()) {
    if (error) {
      *error = soft_command_buffer_error(MTLCommandBufferErrorInternal,
                                         @"this program uses GNUstep's stand-in for _Block_copy: "
                                         @"link it with -lBlocksRuntime before -lgnustep-base");
    }
    return nil;
  }
#endif
  const soft_executor *executor = softmetal_cpu_executor();
  if (!executor) {
    if (error) *error = soft_command_buffer_error(MTLCommandBufferErrorInternal, @"the CPU executor could not start");
    return nil;
  }
  SoftConfiguration *configuration = [[SoftConfiguration alloc] initWithText:text error:error];
  if (!configuration) return nil;
  SoftDevice *device = [[SoftDevice alloc] initWithConfiguration:configuration executor:executor];
  [configuration release];
  return device;
}
