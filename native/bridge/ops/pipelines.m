#import "pipelines.h"

#import "device/device.h"
#import "base/error.h"
#import "pipeline_archive.h"
#import "sources.h"

#include <string.h>

@implementation IronPipelines

IRON_COUNTED(IronPipelines)

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&lock, NULL);
  libraries = [[NSMutableDictionary alloc] init];
  return self;
}

- (void)dealloc {
  for (int kernel = 0; kernel < IRON_KERNELS_AT_MOST; kernel++) [(id)atomic_load(&states[kernel]) release];
  [libraries release];
  [(id)atomic_load(&archive) release];
  pthread_mutex_destroy(&lock);
  [super dealloc];
}

- (IronPipelineArchive *)archive {
  return (IronPipelineArchive *)atomic_load(&archive);
}

- (bool)keepArchive:(IronPipelineArchive *)opened {
  void *none = NULL;
  return atomic_compare_exchange_strong(&archive, &none, [opened retain]) || ([opened release], false);
}

static void count_one(IronDevice *device) {
  IronMonitorLock(&device->monitor);
  IronMemoryAdd(&device->memory, IRON_CATEGORY_PIPELINES, 0);
  IronMonitorUnlock(&device->monitor);
}

static NSString *source_of(const char *family) {
  for (size_t index = 0; index < kernel_source_count; index++) {
    const kernel_source *source = &kernel_sources[index];
    if (strcmp(source->family, family) != 0) continue;
    NSMutableData *text = [NSMutableData data];
    for (size_t part = 0; part < source->part_count; part++)
      [text appendBytes:source->parts[part].bytes length:source->parts[part].length];
    return [[[NSString alloc] initWithData:text encoding:NSUTF8StringEncoding] autorelease];
  }
  return nil;
}

/* Lock held. */
- (id<MTLLibrary>)libraryOf:(const char *)family on:(IronDevice *)device status:(iron_status *)status {
  NSString *key = [NSString stringWithUTF8String:family];
  id<MTLLibrary> library = [libraries objectForKey:key];
  if (library) return library;
  NSString *source = source_of(family);
  if (!source) {
    *status = IronErrorReport(IRON_ERROR_UNSUPPORTED, "this build has no source of the %s kernels", family);
    return nil;
  }
  /* Our kernels say what they do with NaN and infinity, which fast math would ignore. */
  MTLCompileOptions *exact = [[[MTLCompileOptions alloc] init] autorelease];
  [exact setFastMathEnabled:NO];
  /* The default is the newest that the system has, which from macOS 26 on is C++17. Every Mac compiles the same. */
  [exact setLanguageVersion:MTLLanguageVersion3_0];
  library = IronLibraryCompile(device, source, exact, status);
  if (!library) return nil;
  [libraries setObject:library forKey:key];
  count_one(device);
  return library;
}

/* Whether the device runs the kernel's threadgroups. */
static iron_status check_state(id<MTLComputePipelineState> state, const IronKernelEntry *entry) {
  unsigned long width = [state threadExecutionWidth];
  if (width != IRON_SIMD_WIDTH)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED,
                           "kernel %s is written for SIMD-groups of %d threads, and this device has %lu", entry->name,
                           IRON_SIMD_WIDTH, width);
  if (entry->geometry.threads <= [state maxTotalThreadsPerThreadgroup]) return IRON_OK;
  return IronErrorReport(IRON_ERROR_UNSUPPORTED, "this device has no threadgroups of %u threads for kernel %s",
                         entry->geometry.threads, entry->name);
}

/* Lock held. Autoreleased. */
- (id<MTLComputePipelineState>)make:(const IronKernelEntry *)entry
                                 on:(IronDevice *)device
                             status:(iron_status *)status {
  id<MTLLibrary> library = [self libraryOf:entry->family on:device status:status];
  if (!library) return nil;
  id<MTLFunction> function = IronFunctionMake(library, [NSString stringWithUTF8String:entry->name], nil, status);
  id<MTLComputePipelineState> state = function ? IronPipelineMake(device, function, NULL, status) : nil;
  if (!state) return nil;
  *status = check_state(state, entry);
  return *status == IRON_OK ? state : nil;
}

- (iron_status)state:(id<MTLComputePipelineState> *)state ofKernel:(int)kernel on:(IronDevice *)device {
  iron_status status = IRON_OK;
  *state = (id)atomic_load(&states[kernel]);
  if (*state) return IRON_OK;
  IronGateEnter(&lock);
  @try {
    *state = (id)atomic_load(&states[kernel]);
    if (!*state) {
      *state = [[self make:&IronKernelTable[kernel] on:device status:&status] retain];
      if (*state) count_one(device);
      atomic_store(&states[kernel], (void *)*state);
    }
  } @finally {
    IronGateLeave(&lock);
  }
  return status;
}

@end

id<MTLLibrary> IronLibraryCompile(IronDevice *device, NSString *source, MTLCompileOptions *options,
                                  iron_status *status) {
  NSError *error = nil;
  id<MTLLibrary> library = [[device->metal newLibraryWithSource:source options:options error:&error] autorelease];
  if (library) return library;
  bool unsupported =
      [[error domain] isEqual:MTLLibraryErrorDomain] && [error code] == (NSInteger)MTLLibraryErrorUnsupported;
  *status = IronErrorReport(unsupported ? IRON_ERROR_UNSUPPORTED : IRON_ERROR_COMPILE, "%s", IronErrorDescribe(error));
  return nil;
}

id<MTLFunction> IronFunctionMake(id<MTLLibrary> library, NSString *name, MTLFunctionConstantValues *values,
                                 iron_status *status) {
  id<MTLFunction> function = values ? nil : [[library newFunctionWithName:name] autorelease];
  if (function) return function;
  /* newFunctionWithName: does not say what is wrong. */
  NSError *error = nil;
  if (!values) values = [[[MTLFunctionConstantValues alloc] init] autorelease];
  function = [[library newFunctionWithName:name constantValues:values error:&error] autorelease];
  if (!function)
    *status = IronErrorReport(IRON_ERROR_COMPILE, "kernel %s: %s", [name UTF8String], IronErrorDescribe(error));
  return function;
}

id<MTLComputePipelineState> IronPipelineMake(IronDevice *device, id<MTLFunction> function,
                                             MTLComputePipelineReflection **reflection, iron_status *status) {
  NSError *error = nil;
  const MTLPipelineOption options =
      reflection ? MTLPipelineOptionArgumentInfo | MTLPipelineOptionBufferTypeInfo : MTLPipelineOptionNone;
  IronPipelineArchive *archive = [device->pipelines archive];
  id<MTLComputePipelineState> state =
      archive ? [archive newStateOf:function on:device->metal options:options reflection:reflection error:&error]
              : [device->metal newComputePipelineStateWithFunction:function
                                                           options:options
                                                        reflection:reflection
                                                             error:&error];
  [state autorelease];
  if (!state)
    *status = IronErrorReport(IRON_ERROR_COMPILE, "%s: %s", [[function name] UTF8String], IronErrorDescribe(error));
  return state;
}
