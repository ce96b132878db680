#import "pool.h"

#include <stdlib.h>

#import "debug_memory.h"
#import "schedule.h"

uint64_t IronPoolSizeClass(uint64_t length) {
  if (length < 8) return length;
  uint64_t step = UINT64_C(1) << (63 - __builtin_clzll(length) - 2); /* a quarter of the power of two below */
  uint64_t rounded;
  return __builtin_add_overflow(length, step - 1, &rounded) ? length : rounded & ~(step - 1);
}

/* Whether an idle buffer of `bytes` may stay. */
static bool keeps(const IronPool *pool, uint64_t bytes) {
  return pool->policy != IRON_IDLE_RELEASE && bytes <= pool->max_bytes;
}

bool IronPoolServes(const IronPool *pool, uint64_t length, iron_category category) {
  uint64_t bytes = IronPoolSizeClass(length);
  return category != IRON_CATEGORY_WEIGHTS && keeps(pool, bytes) && bytes <= pool->max_buffer_bytes;
}

/* Takes a buffer out of the list, but leaves it in the figures about its memory. */
static void unlink_idle(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle) {
  if (pool->oldest_fresh == idle) pool->oldest_fresh = idle->newer;
  *(idle->newer ? &idle->newer->older : &pool->newest) = idle->older;
  *(idle->older ? &idle->older->newer : &pool->oldest) = idle->newer;
  idle->newer = idle->older = NULL;
  pool->bytes -= idle->bytes;
  pool->buffers -= 1;
  if (idle->empty) memory->empty_bytes -= idle->bytes + idle->rounding;
  IronMemoryRemove(memory, IRON_CATEGORY_POOL, idle->bytes);
}

/* Takes the oldest buffer out for good and puts it before `list`. */
static IronIdleBuffer *take_oldest(IronPool *pool, IronMemory *memory, IronIdleBuffer *list, uint64_t *counter) {
  IronIdleBuffer *oldest = pool->oldest;
  unlink_idle(pool, memory, oldest);
  memory->rounding_bytes -= oldest->rounding;
  *counter += 1;
  oldest->older = list;
  return oldest;
}

IronIdleBuffer *IronPoolTake(IronPool *pool, IronMemory *memory, uint64_t bytes, iron_storage storage) {
  for (IronIdleBuffer *idle = pool->newest; idle; idle = idle->older) {
    if (idle->bytes != bytes || idle->storage != storage) continue;
    unlink_idle(pool, memory, idle);
    return idle;
  }
  return NULL;
}

IronIdleBuffer *IronPoolGive(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle, uint64_t now) {
  if (!keeps(pool, idle->bytes)) { /* the bounds have changed since it was made */
    memory->rounding_bytes -= idle->rounding;
    memory->counters.evictions += 1;
    return idle;
  }
  idle->since = now;
  idle->older = pool->newest;
  *(pool->newest ? &pool->newest->newer : &pool->oldest) = idle;
  pool->newest = idle;
  if (!pool->oldest_fresh) pool->oldest_fresh = idle;
  pool->bytes += idle->bytes;
  pool->buffers += 1;
  IronMemoryAdd(memory, IRON_CATEGORY_POOL, idle->bytes);

  IronIdleBuffer *expired = IronPoolTakeExpired(pool, memory, now);
  IronIdleBuffer *evicted = IronPoolTakeExcess(pool, memory);
  if (!evicted) return expired;
  IronIdleBuffer *last = evicted;
  while (last->older) last = last->older;
  last->older = expired;
  return evicted;
}

IronIdleBuffer *IronPoolTakeExcess(IronPool *pool, IronMemory *memory) {
  IronIdleBuffer *list = NULL;
  while (pool->buffers > 0 && (!keeps(pool, pool->bytes) || pool->buffers > pool->max_buffers))
    list = take_oldest(pool, memory, list, &memory->counters.evictions);
  return list;
}

static uint64_t next_expiry(const IronPool *pool) {
  uint64_t expiry;
  if (!pool->oldest || __builtin_add_overflow(pool->oldest->since, pool->idle_time, &expiry)) return UINT64_MAX;
  return expiry;
}

uint64_t IronPoolNextLook(const IronPool *pool) {
  uint64_t expiry = next_expiry(pool);
  uint64_t tired = pool->oldest_fresh ? pool->oldest_fresh->since + IRON_POOL_QUIET : UINT64_MAX;
  return expiry < tired ? expiry : tired;
}

IronIdleBuffer *IronPoolTakeExpired(IronPool *pool, IronMemory *memory, uint64_t now) {
  IronIdleBuffer *list = NULL;
  while (next_expiry(pool) <= now) list = take_oldest(pool, memory, list, &memory->counters.expired);
  return list;
}

IronIdleBuffer *IronPoolTakeOldest(IronPool *pool, IronMemory *memory, uint64_t bytes) {
  IronIdleBuffer *list = NULL;
  for (uint64_t taken = 0; pool->oldest && taken < bytes;) {
    taken += pool->oldest->bytes;
    list = take_oldest(pool, memory, list, &memory->counters.purged);
  }
  return list;
}

bool IronPurgeableStateEnter(id<MTLBuffer> metal, MTLPurgeableState state) {
  @try {
    [metal setPurgeableState:state];
    return true;
  } @catch (id raised) {
    (void)raised; /* a hint that was not taken: the memory goes when the buffer does */
    return false;
  }
}

IronIdleBuffer *IronPoolListTired(const IronPool *pool, uint64_t now) {
  IronIdleBuffer *first = NULL, **end = &first;
  for (IronIdleBuffer *idle = pool->oldest_fresh; idle && idle->since + IRON_POOL_QUIET <= now; idle = idle->newer) {
    *end = idle;
    end = &idle->next_tired;
  }
  *end = NULL;
  return first;
}

void IronPoolRest(IronIdleBuffer *tired, iron_idle_policy policy) {
  for (IronIdleBuffer *idle = tired; idle; idle = idle->next_tired) {
    bool empty = policy == IRON_IDLE_EMPTY;
    soft_schedule_point();
    idle->resting = IronPurgeableStateEnter(idle->metal, empty ? MTLPurgeableStateEmpty : MTLPurgeableStateVolatile);
    idle->empty = idle->resting && empty;
  }
}

void IronPoolNoteRest(IronPool *pool, IronMemory *memory, IronIdleBuffer *tired) {
  for (IronIdleBuffer *idle = tired; idle; idle = idle->next_tired) {
    if (idle->empty) memory->empty_bytes += idle->bytes + idle->rounding;
    pool->oldest_fresh = idle->newer;
  }
}

IronDiscarded IronPoolDiscard(IronIdleBuffer *list, id<MTLDevice> metal, const char *why) {
  IronDiscarded discarded = {.bytes = 0};
  while (list) {
    IronIdleBuffer *idle = list;
    list = idle->older;
    discarded.bytes += idle->bytes;
    discarded.buffers += 1;
    IronMemoryChange change = IronDebugMemoryBefore(metal);
    soft_schedule_point();
    [idle->metal release];
    IronDebugMemoryAfter(&change, why, idle->bytes, idle->bytes, "", 0);
    free(idle);
  }
  return discarded;
}
