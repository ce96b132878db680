/* What this process publishes for monitors: the writing side of include/ironbridge_monitor.h.
 *
 * One record for the process, made with its first device (published_record.h). Where there is none (opted out, no
 * safe folder, no free slot, no room) a device writes to a slot of its own that nobody sees, so that nothing else has
 * to ask. */
#ifndef IRON_BRIDGE_PUBLICATION_H
#define IRON_BRIDGE_PUBLICATION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ironbridge_monitor.h"

typedef struct IronPublication {
  iron_published_device *slot; /* in the process's record, or `unseen` */
  iron_published_device unseen;
  _Atomic(bool) late; /* changes wait for the reaper to write them to a plain file */
} IronPublication;

/* The figures of a slot that belong together. */
typedef struct IronPublishedFigures {
  uint64_t memory_limit;
  uint64_t active_bytes, active_buffers;
  uint64_t cached_bytes, cached_buffers;
  uint64_t peak_bytes;
  uint64_t allocations, releases;
  uint64_t pool_hits, pool_misses;
} IronPublishedFigures;

/* Takes a slot. Never fails. */
void IronPublicationOpen(IronPublication *publication, uint32_t kind, uint32_t index, const char *name);
void IronPublicationClose(IronPublication *publication);

/* One writer at a time: the device's monitor is held. Returns the IRON_PUBLISHED_ requests of a reader, once. */
uint64_t IronPublicationWrite(IronPublication *publication, const IronPublishedFigures *figures);
/* The same for what waits to be written to a plain file. */
uint64_t IronPublicationCatchUp(IronPublication *publication);
/* From any thread. */
void IronPublicationCountOperation(IronPublication *publication);
void IronPublicationSetBaseline(IronPublication *publication, uint64_t bytes);

#endif
