#import "SoftHeap.h"

#import "SoftBuffer.h"
#import "SoftDevice.h"
#import "SoftValidation.h"

#include <inttypes.h>

@implementation SoftHeap

SOFT_COUNTED(SoftHeap)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device space:(SoftHeapSpace *)space options:(MTLResourceOptions)options {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _space = [space retain];
  _options = options;
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    [_space release];
    [_label release];
    [_device release];
  }
  [super dealloc];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"heap '%@' of %" PRIu64 " bytes", _label ? _label : @"", (uint64_t)self.size];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (MTLResourceOptions)resourceOptions {
  return _options;
}

- (MTLStorageMode)storageMode {
  return (_options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
}

- (MTLCPUCacheMode)cpuCacheMode {
  return (_options & MTLResourceCPUCacheModeMask) >> MTLResourceCPUCacheModeShift;
}

/* A heap's default is that nothing is tracked. */
- (MTLHazardTrackingMode)hazardTrackingMode {
  MTLHazardTrackingMode mode = (_options & MTLResourceHazardTrackingModeMask) >> MTLResourceHazardTrackingModeShift;
  return mode == MTLHazardTrackingModeDefault ? MTLHazardTrackingModeUntracked : mode;
}

- (MTLHeapType)type {
  return MTLHeapTypeAutomatic;
}

- (NSUInteger)size {
  return [_space size];
}

- (NSUInteger)usedSize {
  return [_space used];
}

- (NSUInteger)currentAllocatedSize {
  return [_space charged];
}

- (NSUInteger)allocatedSize {
  return [_space charged];
}

- (NSUInteger)maxAvailableSizeWithAlignment:(NSUInteger)alignment {
  SOFT_REQUIRE((alignment & (alignment - 1)) == 0, @"alignment (%" PRIu64 ") is not a power of two",
               (uint64_t)alignment);
  return [_space longestFreeAt:alignment > SOFT_HEAP_ALIGNMENT ? alignment : SOFT_HEAP_ALIGNMENT];
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  const MTLResourceOptions fixed = MTLResourceStorageModeMask | MTLResourceCPUCacheModeMask;
  [_device requireLength:length options:options of:_cmd];
  SOFT_REQUIRE(((options ^ _options) & fixed) == 0,
               @"options (%#" PRIx64 ") have another storage or CPU cache mode than %@", (uint64_t)options, self);
  SoftBuffer *buffer = [_device newBufferOfLength:length options:options space:_space];
  [buffer setHeap:self];
  return buffer;
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  SOFT_REQUIRE(state >= MTLPurgeableStateKeepCurrent && state <= MTLPurgeableStateEmpty,
               @"state (%" PRIu64 ") is not an MTLPurgeableState", (uint64_t)state);
  MTLPurgeableState previous;
  SOFT_REQUIRE_STATE([_space changeState:state previous:&previous],
                     @"%@ is used by a command buffer in flight and its contents must not go", self);
  return previous;
}

@end
