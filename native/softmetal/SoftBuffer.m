#import "SoftBuffer.h"

#import "SoftDevice.h"
#include "SoftLock.h"
#import "SoftValidation.h"
#import "softmetal.h"

#include <inttypes.h>

@implementation SoftBuffer

SOFT_COUNTED(SoftBuffer)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device
                       storage:(SoftStorage *)storage
                        length:(NSUInteger)length
                       options:(MTLResourceOptions)options {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _storage = [storage retain];
  _length = length;
  _options = options;
  return self;
}

- (void)dealloc {
  held_locks_expect_none("a Metal buffer is destroyed");
  @autoreleasepool {
    if (_residencySets > 0 && soft_is_strict())
      soft_inconsistent(self, _cmd, @"%@ is destroyed, and still in a residency set", self);
    [_storage abandonAs:_label];
    [_storage release];
    [_label release];
    [_device release];
  }
  [super dealloc];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"buffer '%@' of %" PRIu64 " bytes", _label ? _label : @"", (uint64_t)_length];
}

- (void)joinResidencySet {
  _residencySets++;
}

- (void)leaveResidencySet {
  _residencySets--;
}

- (SoftStorage *)storage {
  return _storage;
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (NSUInteger)length {
  return _length;
}

- (void *)contents {
  return [_storage contents];
}

- (uint64_t)gpuAddress {
  return [_storage address];
}

- (NSUInteger)allocatedSize {
  return [_storage allocatedSize];
}

- (MTLResourceOptions)resourceOptions {
  return _options;
}

- (MTLCPUCacheMode)cpuCacheMode {
  return (_options & MTLResourceCPUCacheModeMask) >> MTLResourceCPUCacheModeShift;
}

- (MTLStorageMode)storageMode {
  return (_options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
}

- (MTLHazardTrackingMode)hazardTrackingMode {
  MTLHazardTrackingMode mode = (_options & MTLResourceHazardTrackingModeMask) >> MTLResourceHazardTrackingModeShift;
  return mode == MTLHazardTrackingModeDefault ? MTLHazardTrackingModeTracked : mode;
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  SOFT_REQUIRE(state >= MTLPurgeableStateKeepCurrent && state <= MTLPurgeableStateEmpty,
               @"state (%" PRIu64 ") is not an MTLPurgeableState", (uint64_t)state);
  MTLPurgeableState previous;
  SOFT_REQUIRE_STATE([_storage changeState:state previous:&previous],
                     @"%@ is used by a command buffer in flight and its contents must not go", self);
  return previous;
}

- (void)didModifyRange:(NSRange)range {
  SOFT_REQUIRE_STATE(self.storageMode == MTLStorageModeManaged, @"%@ is not of managed storage", self);
  soft_require_range(self, _cmd, @"range", range.location, range.length, _length);
}

@end

void SoftMetalExpectReads(id<MTLBuffer> buffer) { [[(SoftBuffer *)buffer storage] expectReads]; }

soft_outcome SoftMetalWriteWeights(id<MTLBuffer> buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                   const void *rows, uint64_t length, char **text) {
  SoftStorage *storage = [(SoftBuffer *)buffer storage];
  return [storage writeWeights:matrix first:first count:count rows:rows length:length text:text];
}

soft_outcome SoftMetalReadWeights(id<MTLBuffer> buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                  void *rows, uint64_t length, char **text) {
  SoftStorage *storage = [(SoftBuffer *)buffer storage];
  return [storage readWeights:matrix first:first count:count rows:rows length:length text:text];
}
