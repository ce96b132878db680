/* Idle Metal buffers kept for reuse.
 *
 * Requests are rounded up to size classes four to the power of two, so a reused buffer is at most 25 % larger than what
 * was asked for. The pool is bounded by bytes, by count and by idle time, least recently used out first. A buffer comes
 * here when its last handle and the last submission that used it are gone, so no command in flight can touch it. While
 * idle it is Volatile or, by the policy, Empty; under the policy Release none is kept. Before it is released it is made
 * Empty, so that its pages go back to the system at once.
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
  uint64_t rounding; /* what the device adds to them */
  iron_storage storage;
  bool empty;     /* its pages are gone */
  uint64_t since; /* when it became idle */
  struct IronIdleBuffer *newer, *older;
} IronIdleBuffer;

typedef struct IronPool {
  uint64_t max_bytes; /* UINT64_MAX: no limit */
  uint32_t max_buffers;
  uint64_t max_buffer_bytes;
  uint64_t idle_time; /* nanoseconds; UINT64_MAX: for ever */
  _Atomic(iron_idle_policy) policy; /* not guarded */
  uint64_t bytes;
  uint32_t buffers;
  IronIdleBuffer *newest, *oldest;
} IronPool;

/* The bytes to allocate for a request of `length`. */
uint64_t IronPoolSizeClass(uint64_t length);
/* Whether a request of `length` goes through the pool. */
bool IronPoolServes(const IronPool *pool, uint64_t length, iron_category category);

/* An idle buffer of exactly `bytes`, taken out of the pool; NULL when there is none. */
IronIdleBuffer *IronPoolTake(IronPool *pool, IronMemory *memory, uint64_t bytes, iron_storage storage);
/* Puts a buffer in, which nobody uses any more, and takes out what is then too much or too old, as a list by `older`
 * for IronPoolDiscard. */
IronIdleBuffer *IronPoolGive(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle, uint64_t now);
/* Takes out what is beyond the bounds. */
IronIdleBuffer *IronPoolTakeExcess(IronPool *pool, IronMemory *memory);
/* Takes out what has been idle for too long. */
IronIdleBuffer *IronPoolTakeExpired(IronPool *pool, IronMemory *memory, uint64_t now);
/* Takes out at least `bytes`, or everything. */
IronIdleBuffer *IronPoolTakeOldest(IronPool *pool, IronMemory *memory, uint64_t bytes);
/* When the next buffer will have been idle for too long; UINT64_MAX: never. */
uint64_t IronPoolNextExpiry(const IronPool *pool);

typedef struct IronDiscarded {
  uint64_t bytes, buffers;
} IronDiscarded;
/* Metal's message; false when the device refuses. Does not raise. */
bool IronPurgeableStateEnter(id<MTLBuffer> metal, MTLPurgeableState state);
/* Gives the memory of a list back to the system. Does not raise. `metal` and `why` ("evict", "purge" …) are for the
 * debug lines. */
IronDiscarded IronPoolDiscard(IronIdleBuffer *list, id<MTLDevice> metal, const char *why);

#endif
