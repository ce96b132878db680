#import "SoftBuffer.h"

#import "SoftDevice.h"
#import "SoftHeap.h"
#import "SoftHeapStorage.h"
#include "SoftLock.h"
#import "SoftTexture.h"
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
    [_heap release];
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

- (void)setHeap:(SoftHeap *)heap {
  _heap = [heap retain];
}

- (SoftHeapMemory *)range {
  return _heap ? [(SoftHeapStorage *)_storage range] : nil;
}

- (id<MTLHeap>)heap {
  return _heap;
}

- (NSUInteger)heapOffset {
  return [[self range] offset];
}

- (void)makeAliasable {
  SOFT_REQUIRE_STATE(_heap, @"%@ is not of a heap", self);
  [[self range] giveUp];
}

- (BOOL)isAliasable {
  return [[self range] isGivenUp];
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  SOFT_REQUIRE(state >= MTLPurgeableStateKeepCurrent && state <= MTLPurgeableStateEmpty,
               @"state (%" PRIu64 ") is not an MTLPurgeableState", (uint64_t)state);
  if (_heap) {
    SOFT_REQUIRE_STATE(state == MTLPurgeableStateKeepCurrent, @"%@ is of a heap, which alone has a purgeable state",
                       self);
    return [_heap setPurgeableState:state];
  }
  MTLPurgeableState previous;
  SOFT_REQUIRE_STATE([_storage changeState:state previous:&previous],
                     @"%@ is used by a command buffer in flight and its contents must not go", self);
  return previous;
}

- (id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor *)descriptor
                                    offset:(NSUInteger)offset
                               bytesPerRow:(NSUInteger)bytesPerRow {
  [_device requireTexturesFor:_cmd];
  SOFT_REQUIRE(bytesPerRow > 0, @"bytesPerRow is 0");
  /* So that the size of all rows is a number of 64 bits. One row alone may be shorter than the way to the next. */
  SOFT_REQUIRE(descriptor.height < 2 || bytesPerRow <= _length,
               @"bytesPerRow (%" PRIu64 ") leads outside a buffer of %" PRIu64 " bytes", (uint64_t)bytesPerRow,
               (uint64_t)_length);
  soft_texture layout = [SoftTexture layoutOf:descriptor bytesPerRow:bytesPerRow for:self selector:_cmd];
  SOFT_REQUIRE(descriptor.textureType == MTLTextureType2D || descriptor.textureType == MTLTextureTypeTextureBuffer,
               @"a texture of a buffer is 2D or a texture buffer");
  NSUInteger alignment = [_device minimumLinearTextureAlignmentForPixelFormat:descriptor.pixelFormat];
  SOFT_REQUIRE(offset % alignment == 0, @"offset (%" PRIu64 ") is not a multiple of %" PRIu64, (uint64_t)offset,
               (uint64_t)alignment);
  SOFT_REQUIRE(((descriptor.resourceOptions ^ _options) & MTLResourceStorageModeMask) == 0,
               @"the texture's storage mode is not that of %@", self);
  soft_require_range(self, _cmd, @"the texture", offset, (NSUInteger)layout.length, _length);
  layout.offset = offset;
  return [[SoftTexture alloc] initWithDevice:_device
                                     storage:_storage
                                      buffer:self
                                      layout:layout
                                  descriptor:descriptor];
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
