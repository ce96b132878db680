/* Idle Metal buffers kept for reuse.
 *
 * Requests are rounded up to size classes four to the power of two, so a reused buffer is at most 25 % larger than what
 * was asked for. The pool is bounded by bytes and by count, least recently used out first. A buffer comes here when its
 * last handle and the last submission that used it are gone, so no command in flight can touch it. While idle it is
 * Volatile; before it is released it is made Empty, so that its pages go back to the system at once.
 *
 * The lists are guarded by the device's monitor; IronPoolDiscard is called without it. */
#ifndef IRON_BRIDGE_POOL_H
#define IRON_BRIDGE_POOL_H

#import <Metal/Metal.h>

#include "ironbridge.h"
#include "memory.h"

typedef struct IronIdleBuffer {
  id<MTLBuffer> metal; /* +1 */
  uint64_t bytes;
  iron_storage storage;
  struct IronIdleBuffer *newer, *older;
} IronIdleBuffer;

typedef struct IronPool {
  uint64_t max_bytes;
  uint32_t max_buffers;
  uint64_t bytes;
  uint32_t buffers;
  IronIdleBuffer *newest, *oldest;
} IronPool;

/* The bytes to allocate for a request of `length`. */
uint64_t IronPoolSizeClass(uint64_t length);

/* An idle buffer of exactly `bytes`, taken out of the pool; NULL when there is none. */
IronIdleBuffer *IronPoolTake(IronPool *pool, IronMemory *memory, uint64_t bytes, iron_storage storage);
/* Puts a buffer in and takes out what is then too much, as a list by `older` for IronPoolDiscard. */
IronIdleBuffer *IronPoolGive(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle);
/* Takes everything out. */
IronIdleBuffer *IronPoolTakeAll(IronPool *pool, IronMemory *memory);
/* Gives the memory of a list back to the system. Returns its bytes. */
uint64_t IronPoolDiscard(IronIdleBuffer *list);

#endif
