/* A buffer's memory: pages of our own, or the caller's with a deallocator. */
#ifndef SOFT_STORAGE_H
#define SOFT_STORAGE_H

#import "SoftMemory.h"
#import "SoftReferent.h"

typedef void (^soft_deallocator)(void *pointer, NSUInteger length);

@interface SoftStorage : SoftReferent {
@private
  SoftMemory *_memory;
  void *_pointer;
  NSUInteger _length;
  NSUInteger _charged; /* bytes that count as allocated while the contents are there */
  BOOL _foreign;       /* the caller's memory */
  soft_deallocator _deallocator;
  MTLPurgeableState _state;
}
/* Zeroed pages, or nil when there is no memory. */
- (instancetype)initWithLength:(NSUInteger)length memory:(SoftMemory *)memory;
/* Memory of the caller's. The deallocator (may be nil) is called once, when the last user is gone; never when this
 * returns nil. Such memory counts as allocated: the device has it mapped. */
- (instancetype)initWithForeign:(void *)pointer
                         length:(NSUInteger)length
                         memory:(SoftMemory *)memory
                    deallocator:(soft_deallocator)deallocator;
- (void *)pointer;
/* Asks for large pages before the first touch. Nothing for foreign memory. */
- (void)preferLargePages;
/* Whole pages, in bytes. */
- (NSUInteger)allocatedSize;
/* Changes the state and returns the one before. Empty gives the pages back and takes them off the device's bytes until
 * the state is non-volatile again; foreign memory stays as it is, it is not ours to give. NO, and nothing changes, when
 * a command buffer in flight uses the memory and the new state would let its contents go. */
- (BOOL)changeState:(MTLPurgeableState)state previous:(MTLPurgeableState *)previous;
@end

#endif
