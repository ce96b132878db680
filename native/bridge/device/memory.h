/* A device's memory figures: every allocation is added once and removed once. Guarded by the device's monitor, so that
 * the figures agree with each other whenever they are read, and published with every change. */
#ifndef IRON_BRIDGE_MEMORY_H
#define IRON_BRIDGE_MEMORY_H

#import <Foundation/Foundation.h>
#include <stdbool.h>

#include "ironbridge_memory.h"
#include "publication.h"

@class IronDevice;

enum { IRON_CATEGORY_COUNT = IRON_CATEGORY_QUEUES + 1 };
_Static_assert((int)IRON_CATEGORY_COUNT <= IRON_CATEGORY_CAPACITY, "the header's arrays have a place for each category");

/* What iron_memory_reset sets to 0. */
typedef struct IronMemoryCounters {
  uint64_t hits, misses, bypasses, evictions, expired, purged;
  uint64_t command_buffers;
} IronMemoryCounters;

typedef struct IronMemory {
  iron_memory_usage categories[IRON_CATEGORY_COUNT]; /* POOL: idle; QUEUES is counted when somebody asks */
  iron_memory_usage baseline[IRON_CATEGORY_COUNT];
  iron_memory_usage active, peak; /* buffers in use */
  uint64_t wrapped_bytes;         /* of the active ones */
  uint64_t reserved_bytes;        /* being allocated */
  uint64_t rounding_bytes;        /* what the device adds to buffers, in use or idle */
  uint64_t empty_bytes;           /* idle and Empty, as the device counted them */
  uint64_t allocations, releases;
  IronMemoryCounters counters;
  _Atomic(uint64_t) operations; /* not guarded */
  uint64_t limit;               /* UINT64_MAX: none */
  uint64_t working_set;         /* beyond it idle memory makes room */
  IronPublication publication;
} IronMemory;

void IronMemoryAdd(IronMemory *memory, iron_category category, uint64_t bytes);
void IronMemoryRemove(IronMemory *memory, iron_category category, uint64_t bytes);

/* The buffers' bytes that the limit is about: those in use and being allocated, wrapped ones apart. */
uint64_t IronMemoryLimited(const IronMemory *memory);
/* Publishes what waits for the reaper. */
void IronMemoryCatchUp(IronMemory *memory);
/* From any thread, without the monitor. */
void IronMemoryCountOperation(IronMemory *memory);

/* These take the monitor. */
void IronMemoryDescribe(IronDevice *device, iron_memory_info *info);
void IronMemoryReset(IronDevice *device, uint32_t what);

#endif
