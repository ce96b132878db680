/* The memory of a buffer in a heap: a range of the heap's bytes, which the device has been charged for already. */
#ifndef SOFT_HEAP_STORAGE_H
#define SOFT_HEAP_STORAGE_H

#import "SoftHeapSpace.h"
#import "SoftStorage.h"

/* What such a storage charges instead of the device's memory: the range is its own, so nothing more counts. */
@interface SoftHeapMemory : SoftMemory {
@private
  SoftHeapSpace *_space;
  _Atomic(soft_heap_range *) _range; /* NULL: given back */
  NSUInteger _offset;
}
/* nil: the heap has no room for that. */
- (instancetype)initWithSpace:(SoftHeapSpace *)space length:(NSUInteger)length;
- (SoftHeapSpace *)space;
- (NSUInteger)offset;
/* The memory that lies there; NULL: it is about to go. */
- (void)setBuffer:(soft_buffer *)buffer;
/* Gives the range back before the memory goes. */
- (void)giveUp;
- (BOOL)isGivenUp;
@end

@interface SoftHeapStorage : SoftStorage {
@private
  SoftHeapMemory *_range;
}
/* nil: the heap or the machine has no room for that. */
- (instancetype)initWithLength:(NSUInteger)length
                       storage:(soft_storage)storage
                       backend:(SoftBackend *)backend
                         space:(SoftHeapSpace *)space;
- (SoftHeapMemory *)range;
@end

#endif
