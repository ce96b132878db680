/* id<MTLBuffer>. */
#ifndef SOFT_BUFFER_H
#define SOFT_BUFFER_H

#import "SoftStorage.h"

@class SoftDevice, SoftHeap;

@interface SoftBuffer : SoftObject <MTLBuffer> {
@package
  SoftDevice *_device;
  SoftStorage *_storage; /* of a heap, a SoftHeapStorage */
  NSUInteger _length;
@private
  SoftHeap *_heap; /* nil: of none */
  MTLResourceOptions _options;
  NSString *_label;
  _Atomic(NSUInteger) _residencySets;
}
- (instancetype)initWithDevice:(SoftDevice *)device
                       storage:(SoftStorage *)storage
                        length:(NSUInteger)length
                       options:(MTLResourceOptions)options;
/* What commands use: has the memory's address for private buffers too. */
- (SoftStorage *)storage;
/* The heap that its storage is of; once. */
- (void)setHeap:(SoftHeap *)heap;
/* A residency set holds it, without a reference, or no longer. */
- (void)joinResidencySet;
- (void)leaveResidencySet;
@end

#endif
