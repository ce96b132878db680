#import "pool.h"

#include <stdlib.h>

uint64_t IronPoolSizeClass(uint64_t length) {
  if (length < 8) return length;
  uint64_t step = UINT64_C(1) << (63 - __builtin_clzll(length) - 2); /* a quarter of the power of two below */
  uint64_t rounded;
  return __builtin_add_overflow(length, step - 1, &rounded) ? length : rounded & ~(step - 1);
}

static void unlink_idle(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle) {
  *(idle->newer ? &idle->newer->older : &pool->newest) = idle->older;
  *(idle->older ? &idle->older->newer : &pool->oldest) = idle->newer;
  idle->newer = idle->older = NULL;
  pool->bytes -= idle->bytes;
  pool->buffers -= 1;
  IronMemoryRemove(memory, IRON_CATEGORY_POOL, idle->bytes);
}

IronIdleBuffer *IronPoolTake(IronPool *pool, IronMemory *memory, uint64_t bytes, iron_storage storage) {
  for (IronIdleBuffer *idle = pool->newest; idle; idle = idle->older) {
    if (idle->bytes != bytes || idle->storage != storage) continue;
    unlink_idle(pool, memory, idle);
    return idle;
  }
  return NULL;
}

IronIdleBuffer *IronPoolGive(IronPool *pool, IronMemory *memory, IronIdleBuffer *idle) {
  if (idle->bytes > pool->max_bytes || pool->max_buffers == 0) return idle;
  idle->older = pool->newest;
  *(pool->newest ? &pool->newest->newer : &pool->oldest) = idle;
  pool->newest = idle;
  pool->bytes += idle->bytes;
  pool->buffers += 1;
  IronMemoryAdd(memory, IRON_CATEGORY_POOL, idle->bytes);

  IronIdleBuffer *evicted = NULL;
  while (pool->bytes > pool->max_bytes || pool->buffers > pool->max_buffers) {
    IronIdleBuffer *oldest = pool->oldest;
    unlink_idle(pool, memory, oldest);
    oldest->older = evicted;
    evicted = oldest;
  }
  return evicted;
}

IronIdleBuffer *IronPoolTakeAll(IronPool *pool, IronMemory *memory) {
  IronIdleBuffer *all = NULL;
  while (pool->oldest) {
    IronIdleBuffer *oldest = pool->oldest;
    unlink_idle(pool, memory, oldest);
    oldest->older = all;
    all = oldest;
  }
  return all;
}

uint64_t IronPoolDiscard(IronIdleBuffer *list) {
  uint64_t bytes = 0;
  while (list) {
    IronIdleBuffer *idle = list;
    list = idle->older;
    bytes += idle->bytes;
    [idle->metal setPurgeableState:MTLPurgeableStateEmpty];
    [idle->metal release];
    free(idle);
  }
  return bytes;
}
