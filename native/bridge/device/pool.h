/* Idle Metal buffers kept for reuse.
 *
 * Requests are rounded up to size classes four to the power of two, so a reused buffer is at most 25 % larger than what
 * was asked for. The pool is bounded by bytes, by count and by idle time, least recently used out first. A buffer comes
 * here when its last handle and the last submission that used it are gone, so no command in flight can touch it. Under
 * the policy Release none is kept.
 *
 * It comes as it was used, Non-volatile: it may be let go of in a completion handler, and Metal's validation layer ends
 * a program that makes a buffer Volatile which a command buffer still uses; when that use ends, before the handlers or
 * after them, is not documented. So only the reaper makes buffers Volatile or, by the policy, Empty, when they have
 * been idle for IRON_POOL_QUIET. Memory that is used again and again stays resident meanwhile.
 *
 * The lists are guarded by the device's monitor, and nothing is taken out while the reaper is at it
 * (IronDeviceLockPool); IronPoolDiscard is called without it. */
#ifndef IRON_BRIDGE_POOL_H
#define IRON_BRIDGE_POOL_H

#import <Metal/Metal.h>

#include "ironbridge.h"
#include "memory.h"

/* Nanoseconds. Nobody's completion handlers take so long. */
static const uint64_t IRON_POOL_QUIET = UINT64_C(1000000000);

typedef struct IronIdleBuffer {
  id<MTLBuffer> metal; /* +1 */
  uint64_t bytes;
  uint64_t rounding; /* what the device adds to them */
  iron_storage storage;
  bool resting;   /* its pages may be gone: Volatile or Empty */
  bool empty;     /* they are */
  uint64_t since; /* when it became idle */
  struct IronIdleBuffer *newer, *older;
  struct IronIdleBuffer *next_tired; /* see IronPoolListTired */
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
  IronIdleBuffer *oldest_fresh; /* this one and those newer are as they came; NULL: none */
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
/* When the reaper is to look next; UINT64_MAX: never. */
uint64_t IronPoolNextLook(const IronPool *pool);

/* Those that have been idle for IRON_POOL_QUIET and are as they came, by `next_tired`. They stay in the pool. */
IronIdleBuffer *IronPoolListTired(const IronPool *pool, uint64_t now);
/* Makes the buffers of such a list what the policy wants. Without the monitor. Does not raise. */
void IronPoolRest(IronIdleBuffer *tired, iron_idle_policy policy);
/* They are no longer fresh. With the monitor. */
void IronPoolNoteRest(IronPool *pool, IronMemory *memory, IronIdleBuffer *tired);

typedef struct IronDiscarded {
  uint64_t bytes, buffers;
} IronDiscarded;
/* Metal's message; false when the device refuses. Does not raise. */
bool IronPurgeableStateEnter(id<MTLBuffer> metal, MTLPurgeableState state);
/* Gives the memory of a list back to the system. Does not raise. `metal` and `why` ("evict", "purge" …) are for the
 * debug lines. */
IronDiscarded IronPoolDiscard(IronIdleBuffer *list, id<MTLDevice> metal, const char *why);

#endif
