#import "ledger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#import "debug_memory.h"
#import "base/entry.h"
#import "base/handle.h"

void IronLedgerAdd(IronBuffer *buffer) {
  IronDevice *device = buffer->device;
  buffer->older = device->newest_buffer;
  if (buffer->older) buffer->older->newer = buffer;
  device->newest_buffer = buffer;
}

void IronLedgerRemove(IronBuffer *buffer) {
  *(buffer->newer ? &buffer->newer->older : &buffer->device->newest_buffer) = buffer->older;
  if (buffer->older) buffer->older->newer = buffer->newer;
  buffer->newer = buffer->older = nil;
}

static bool has_users(IronUsers users) { return users.readers || users.writers; }

/* A buffer without a handle is in use by the call that makes it, or by the submission that it was made for. */
static bool is_in_use(IronBuffer *buffer) {
  if (atomic_load(&buffer->ticket) == 0) return true;
  const IronHazard *hazard = &buffer->hazard;
  return has_users(hazard->recorded) || has_users(hazard->in_flight) || has_users(hazard->mapped);
}

/* The label is copied; NULL when there is no memory for it. */
static iron_allocation describe(IronBuffer *buffer, uint64_t now) {
  const void *ticket = (const void *)atomic_load(&buffer->ticket);
  return (iron_allocation){.size = sizeof(iron_allocation),
                           .bytes = buffer->bytes,
                           .category = buffer->category,
                           .storage = buffer->storage,
                           .label = strdup(buffer->label ? buffer->label : ""),
                           .file = buffer->location.file,
                           .file_length = buffer->location.length,
                           .line = buffer->location.line,
                           .pooled = buffer->pooled != NULL,
                           .wrapped = buffer->wrapped,
                           .in_use = is_in_use(buffer),
                           .references = ticket ? IronHandleReferences(ticket, IRON_HANDLE_BUFFER) : 0,
                           .age = now - buffer->born};
}

static int larger_first(const void *left, const void *right) {
  const iron_allocation *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->age == b->age ? 0 : a->age < b->age ? 1 : -1;
}

bool IronLedgerList(IronDevice *device, IronListing *listing) {
  *listing = (IronListing){.count = 0};
  bool complete = true;
  uint64_t now = IronNow();
  IronMonitorLock(&device->monitor);
  uint64_t count = 0;
  for (IronBuffer *buffer = device->newest_buffer; buffer; buffer = buffer->older) count += 1;
  if (count > 0) listing->allocations = calloc(count, sizeof *listing->allocations);
  complete = count == 0 || listing->allocations;
  for (IronBuffer *buffer = device->newest_buffer; buffer && complete; buffer = buffer->older) {
    iron_allocation allocation = describe(buffer, now);
    listing->allocations[listing->count++] = allocation;
    listing->bytes += allocation.bytes;
    complete = allocation.label != NULL;
  }
  IronMonitorUnlock(&device->monitor);
  if (!complete) IronListingFree(listing);
  if (listing->count > 1) qsort(listing->allocations, listing->count, sizeof *listing->allocations, larger_first);
  return complete;
}

void IronListingFree(IronListing *listing) {
  for (uint64_t index = 0; index < listing->count; index++) free((char *)listing->allocations[index].label);
  free(listing->allocations);
  *listing = (IronListing){.count = 0};
}

/* What the purge needs of one buffer, which may go as soon as the monitor is unlocked. */
typedef struct Purged {
  id<MTLBuffer> metal; /* +1 */
  uint64_t length, bytes;
  char *label; /* malloc'ed; NULL: none, or no memory for it */
} Purged;

/* Takes the next ones that nothing uses, and will use: the device is closed. Returns how many. */
static size_t take_unused(IronDevice *device, Purged *purged, size_t capacity) {
  size_t count = 0;
  IronMonitorLock(&device->monitor);
  for (IronBuffer *buffer = device->newest_buffer; buffer && count < capacity; buffer = buffer->older) {
    if (buffer->wrapped || buffer->emptied || is_in_use(buffer)) continue;
    buffer->emptied = true;
    device->memory.empty_bytes += buffer->bytes + buffer->rounding;
    purged[count++] = (Purged){.metal = [buffer->metal retain],
                               .length = buffer->length,
                               .bytes = buffer->bytes,
                               .label = buffer->label ? strdup(buffer->label) : NULL};
  }
  IronMonitorUnlock(&device->monitor);
  return count;
}

void IronLedgerPurge(IronDevice *device) {
  enum { AT_ONCE = 64 };
  Purged purged[AT_ONCE];
  size_t count;
  while ((count = take_unused(device, purged, AT_ONCE)) > 0) {
    for (size_t index = 0; index < count; index++) {
      Purged *each = &purged[index];
      IronMemoryChange change = IronDebugMemoryBefore(device->metal);
      soft_schedule_point();
      IronPurgeableStateEnter(each->metal, MTLPurgeableStateEmpty);
      uint64_t others = change.metal ? [each->metal retainCount] - 1 : 0;
      [each->metal release];
      IronDebugMemoryAfter(&change, "purge", each->length, each->bytes, each->label, others);
      free(each->label);
    }
  }
}

iron_status iron_memory_list(iron_device *handle, iron_allocation_callback visit, void *context) {
  IRON_ENTRY {
    if (!visit) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "visit: is NULL");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronListing listing;
    if (!IronLedgerList(device, &listing))
      return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory to list the buffers");
    for (uint64_t index = 0; index < listing.count; index++) visit(&listing.allocations[index], context);
    IronListingFree(&listing);
    return IRON_OK;
  } IRON_LEAVE
}
