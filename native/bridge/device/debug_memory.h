/* IRONBRIDGE_DEBUG_MEMORY: a line on stderr for each allocation, release, return to the pool and purge. */
#ifndef IRON_BRIDGE_DEBUG_MEMORY_H
#define IRON_BRIDGE_DEBUG_MEMORY_H

#import <Metal/Metal.h>

#include <stdint.h>

/* What the device had allocated before something changes. */
typedef struct IronMemoryChange {
  id<MTLDevice> metal; /* not retained; nil: nobody wants to know */
  uint64_t before;
} IronMemoryChange;

IronMemoryChange IronDebugMemoryBefore(id<MTLDevice> metal);
/* `size_class`: the bytes that were allocated for a request of `bytes`. `references`: how many still hold the Metal
 * buffer. */
void IronDebugMemoryAfter(const IronMemoryChange *change, const char *event, uint64_t bytes, uint64_t size_class,
                          const char *label, uint64_t references);

#endif
