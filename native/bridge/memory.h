/* What a device's allocations amount to, by category. All of it is guarded by the device's monitor, so that the figures
 * agree with each other whenever they are read. */
#ifndef IRON_BRIDGE_MEMORY_H
#define IRON_BRIDGE_MEMORY_H

#include "ironbridge.h"
#include "publication.h"

typedef struct IronMemory {
  iron_memory_usage categories[IRON_CATEGORY_COUNT]; /* POOL: idle; QUEUES is counted when somebody asks */
  uint64_t active_bytes, peak_bytes;
  uint64_t active_buffers;
  uint64_t allocations, releases; /* buffers, so far */
  uint64_t pool_hits, pool_misses;
  IronPublication publication;
} IronMemory;

void IronMemoryAdd(IronMemory *memory, iron_category category, uint64_t bytes);
void IronMemoryRemove(IronMemory *memory, iron_category category, uint64_t bytes);

#endif
