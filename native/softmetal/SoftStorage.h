/* A buffer's memory, which the backend holds: its own, or the caller's with a deallocator. */
#ifndef SOFT_STORAGE_H
#define SOFT_STORAGE_H

#import "SoftBackend.h"
#import "SoftMemory.h"
#import "SoftReferent.h"

typedef void (^soft_deallocator)(void *pointer, NSUInteger length);

@interface SoftStorage : SoftReferent {
@package
  soft_buffer *_buffer; /* the same from the beginning to the end */
@private
  SoftBackend *_backend;
  SoftMemory *_memory;
  void *_contents;
  NSUInteger _length;
  NSUInteger _charged; /* bytes that count as allocated while the contents are there */
  BOOL _foreign;       /* the caller's memory */
  soft_deallocator _deallocator;
  MTLPurgeableState _state;
}
/* Zeroed memory, or nil when there is none. */
- (instancetype)initWithLength:(NSUInteger)length
                       storage:(soft_storage)storage
                       backend:(SoftBackend *)backend
                        memory:(SoftMemory *)memory;
/* Memory of the caller's. The deallocator (may be nil) is called once, when the last user is gone; never when this
 * returns nil. Such memory counts as allocated: the device has it mapped. */
- (instancetype)initWithForeign:(void *)pointer
                         length:(NSUInteger)length
                        backend:(SoftBackend *)backend
                         memory:(SoftMemory *)memory
                    deallocator:(soft_deallocator)deallocator;
/* What commands name. */
- (soft_buffer *)buffer;
/* Where the host reads and writes it; NULL: it does not. */
- (void *)contents;
- (uint64_t)address;
/* Before the first touch: it will be written as a whole and read often. */
- (void)expectReads;
/* Rows of weights: weights_write and weights_read of backend.h. */
- (soft_outcome)writeWeights:(const soft_matrix *)matrix
                       first:(uint64_t)first
                       count:(uint64_t)count
                        rows:(const void *)rows
                      length:(uint64_t)length
                        text:(char **)text;
- (soft_outcome)readWeights:(const soft_matrix *)matrix
                      first:(uint64_t)first
                      count:(uint64_t)count
                       rows:(void *)rows
                     length:(uint64_t)length
                       text:(char **)text;
/* Whole pages, in bytes. */
- (NSUInteger)allocatedSize;
/* Changes the state and returns the one before. Empty gives the memory back and takes it off the device's bytes until
 * the state is non-volatile again; foreign memory stays as it is, it is not ours to give. NO, and nothing changes, when
 * a command buffer in flight uses the memory and the new state would let its contents go. */
- (BOOL)changeState:(MTLPurgeableState)state previous:(MTLPurgeableState *)previous;
@end

#endif
