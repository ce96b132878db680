/* A heap's bytes: which ranges its buffers have, and the device's memory that all of it is charged to once. Lives as
 * long as the heap and as the memory of its buffers. */
#ifndef SOFT_HEAP_SPACE_H
#define SOFT_HEAP_SPACE_H

#import "SoftBackend.h"
#import "SoftMemory.h"
#include "SoftUses.h"

#include <pthread.h>

enum { SOFT_HEAP_ALIGNMENT = 256 };

/* `length` bytes from `offset`, in a list by offset. */
typedef struct soft_heap_range {
  NSUInteger offset, length;
  soft_buffer *buffer; /* NULL: not made yet, or on its way out */
  struct soft_heap_range *next;
} soft_heap_range;

@interface SoftHeapSpace : SoftObject {
@private
  pthread_mutex_t _lock;
  SoftBackend *_backend;
  SoftMemory *_memory;
  NSUInteger _size, _used, _charged;
  soft_heap_range *_first;
  soft_uses *_uses; /* of all its buffers by command buffers; changed up with `_lock` held */
  MTLPurgeableState _state;
}
/* nil: the device has no memory of that size. */
- (instancetype)initWithSize:(NSUInteger)size backend:(SoftBackend *)backend memory:(SoftMemory *)memory;
- (NSUInteger)size;
- (NSUInteger)used;
/* What the device is charged now: 0 while the heap is empty. */
- (NSUInteger)charged;
/* The longest range that is free, from a multiple of `alignment` on. */
- (NSUInteger)longestFreeAt:(NSUInteger)alignment;
/* The first place where `length` bytes are free, a multiple of SOFT_HEAP_ALIGNMENT. NULL: there is none. */
- (soft_heap_range *)take:(NSUInteger)length;
- (void)giveBack:(soft_heap_range *)range;
/* The memory of a range, which the heap gives back when it is emptied; NULL: no longer. */
- (void)setBuffer:(soft_buffer *)buffer of:(soft_heap_range *)range;
- (soft_uses *)uses;
/* As SoftReferent's, of the heap as a whole. */
- (NSString *)beginUse;
/* As SoftStorage's. */
- (BOOL)changeState:(MTLPurgeableState)state previous:(MTLPurgeableState *)previous;
@end

#endif
