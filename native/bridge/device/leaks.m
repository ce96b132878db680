#import "leaks.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#import "base/entry.h"
#import "base/environment.h"
#import "base/handle.h"
#import "ledger.h"
#import "registry.h"
#import "base/structs.h"
#import "submission.h"
#import "base/text.h"

static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
static iron_leak_callback leak_hook; /* NULL: to stderr */
static void *hook_context;

iron_status iron_leak_hook(iron_leak_callback hook, void *context) {
  IronLeafLock(&hook_lock);
  leak_hook = hook;
  hook_context = context;
  IronLeafUnlock(&hook_lock);
  return IRON_OK;
}

void IronLeaksForget(void) { pthread_mutex_init(&hook_lock, NULL); }

#pragma mark Text

/* "12.5 MiB", by value: several may be in one expression. */
typedef struct Amount {
  char text[24];
} Amount;

static Amount amount_of(uint64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    unit += 1;
  }
  Amount amount;
  snprintf(amount.text, sizeof amount.text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return amount;
}

static const char *category_name(iron_category category) {
  static const char *const names[IRON_CATEGORY_COUNT] = {"other",   "weights", "activations", "KV cache",
                                                         "scratch", "pool",    "pipelines",   "queues"};
  return category < IRON_CATEGORY_COUNT ? names[category] : "unknown";
}

/* One line. */
static void print_allocation(FILE *out, const iron_allocation *allocation) {
  char text[1024];
  IronTextEscape(text, sizeof text, allocation->label, strlen(allocation->label));
  fprintf(out, "  %10s  %-11s \"%s\"", amount_of(allocation->bytes).text, category_name(allocation->category), text);
  if (allocation->file) {
    IronTextEscape(text, sizeof text, allocation->file, allocation->file_length);
    fprintf(out, " made at %s:%u", text, allocation->line);
  }
  fprintf(out, ", %.1f s ago, held by %" PRIu64 " handle reference%s%s%s\n", (double)allocation->age * 1e-9,
          allocation->references, allocation->references == 1 ? "" : "s",
          allocation->in_use ? ", in use by commands or a map" : "",
          allocation->wrapped ? ", wrapped memory that only its owner can give back" : "");
}

static void print_leaks(const iron_leaks *leaks) {
  enum { SHOWN = 20 };
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) return;
  fprintf(out, "ironbridge: %s in %" PRIu64 " buffer%s still allocated %s on %s:\n", amount_of(leaks->leaked_bytes).text,
          leaks->leaked_count, leaks->leaked_count == 1 ? " is" : "s are",
          leaks->at_exit ? "when the process ended" : "when the device was closed", leaks->device);
  uint64_t shown_bytes = 0;
  for (uint64_t index = 0; index < leaks->leaked_count && index < SHOWN; index++) {
    print_allocation(out, &leaks->allocations[index]);
    shown_bytes += leaks->allocations[index].bytes;
  }
  if (leaks->leaked_count > SHOWN)
    fprintf(out, "  and %" PRIu64 " smaller ones of %s\n", leaks->leaked_count - SHOWN,
            amount_of(leaks->leaked_bytes - shown_bytes).text);
  fprintf(out, "  device memory %s before the purge, %s after it, %s freed; %" PRId64 " handles are live\n",
          amount_of(leaks->device_before).text, amount_of(leaks->device_after).text, amount_of(leaks->freed_bytes).text,
          IronHandleLiveCount());
  fclose(out);
  fputs(text, stderr);
  free(text);
}

void IronMemoryCheck(IronDevice *device, const char *when) {
  if (!IronEnvironment()->memory_check) return;
  iron_memory_info info;
  IronMemoryDescribe(device, &info);
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) return;
  uint64_t requests = info.pool_hits + info.pool_misses;
  fprintf(out, "ironbridge memory check: %s, %s, open for %.1f s\n", [[device->metal name] UTF8String], when,
          (double)(IronNow() - device->opened) * 1e-9);
  fprintf(out, "  device       %s; active %s in %" PRIu64 " buffers; peak %s in %" PRIu64 "\n",
          amount_of(info.device_bytes).text, amount_of(info.active_bytes).text, info.active_buffers,
          amount_of(info.peak_bytes).text, info.peak_buffers);
  fprintf(out, "  buffers      %" PRIu64 " made, %" PRIu64 " given back\n", info.allocations, info.releases);
  fprintf(out, "  pool         %s idle in %" PRIu64 " buffers; %" PRIu64 " hits, %" PRIu64 " misses, %.1f %% reused, %" PRIu64
               " bypasses; %" PRIu64 " evicted, %" PRIu64 " expired, %" PRIu64 " purged\n",
          amount_of(info.pool_bytes).text, info.pool_buffers, info.pool_hits, info.pool_misses,
          requests ? 100.0 * (double)info.pool_hits / (double)requests : 0.0, info.pool_bypasses, info.pool_evictions,
          info.pool_expired, info.pool_purged);
  fprintf(out, "  work         %" PRIu64 " operations in %" PRIu64 " command buffers, %" PRIu64 " in flight\n",
          info.operations, info.command_buffers, info.in_flight);
  for (int category = 0; category < IRON_CATEGORY_COUNT; category++) {
    const iron_memory_usage *now = &info.categories[category], *then = &info.baseline[category];
    if (now->count == 0 && then->count == 0) continue;
    fprintf(out, "  %-12s %" PRIu64 " bytes in %" PRIu64 " (%+" PRId64 " bytes, %+" PRId64 " since the baseline)\n",
            category_name((iron_category)category), now->bytes, now->count, (int64_t)(now->bytes - then->bytes),
            (int64_t)(now->count - then->count));
  }
  fclose(out);
  fputs(text, stderr);
  free(text);
}

#pragma mark Finding

/* What was found on one device; owns its listing and name. */
typedef struct Found {
  iron_leaks leaks;
  IronListing listing;
  char name[128];
  struct Found *next;
} Found;

/* Waits until Metal is done with what is complete: it may count a buffer as used until after the handlers, and a buffer
 * in use must not be made Empty. Metal's queue completes command buffers in order, their handlers included. */
static void wait_for_handlers(IronDevice *device) {
  IronMonitorLock(&device->monitor);
  bool idle = device->last_serial > 0 && device->in_flight == 0;
  IronMonitorUnlock(&device->monitor);
  if (!idle || IronSubmissionsCheckWait() != IRON_OK) return;
  @try {
    id<MTLCommandBuffer> last = [device->queue commandBuffer];
    [last commit];
    [last waitUntilCompleted];
  } @catch (id raised) {
    (void)raised; /* a device that takes no commands any more uses nothing either */
  }
}

/* False when there is no memory to say what. */
static bool find(Found *found, IronDevice *device, bool at_exit) {
  uint64_t before = [device->metal currentAllocatedSize];
  IronDeviceLockPool(device);
  IronIdleBuffer *idle = IronPoolTakeOldest(&device->pool, &device->memory, UINT64_MAX);
  IronMonitorUnlock(&device->monitor);
  IronPoolDiscard(idle, device->metal, "purge");
  if (!IronLedgerList(device, &found->listing)) return false;
  if (found->listing.count > 0 && (!at_exit || found->listing.bytes > IRON_LEAK_THRESHOLD)) {
    wait_for_handlers(device);
    IronLedgerPurge(device);
  }
  uint64_t after = [device->metal currentAllocatedSize];
  snprintf(found->name, sizeof found->name, "%s", [[device->metal name] UTF8String]);
  found->leaks = (iron_leaks){.size = sizeof(iron_leaks),
                              .device = found->name,
                              .at_exit = at_exit,
                              .device_before = before,
                              .device_after = after,
                              .freed_bytes = before > after ? before - after : 0,
                              .leaked_bytes = found->listing.bytes,
                              .leaked_count = found->listing.count,
                              .allocations = found->listing.allocations};
  return true;
}

/* No lock held: the hook may call the bridge. */
static void report(const Found *found) {
  if (found->leaks.leaked_bytes <= IRON_LEAK_THRESHOLD) return;
  IronLeafLock(&hook_lock);
  iron_leak_callback hook = leak_hook;
  void *context = hook_context;
  IronLeafUnlock(&hook_lock);
  if (hook)
    hook(&found->leaks, context);
  else
    print_leaks(&found->leaks);
}

void IronLeaksAtClose(IronDevice *device, iron_leaks *leaks) {
  IronMemoryCheck(device, "closed");
  Found found = {.next = NULL};
  if (!find(&found, device, false)) return;
  report(&found);
  if (leaks) {
    *leaks = found.leaks;
    leaks->allocations = NULL;
    leaks->device = NULL;
  }
  IronListingFree(&found.listing);
}

static const uint64_t patience_at_exit = UINT64_C(1000000000);

static void close_at_exit(IronDevice *device, void *context) {
  Found **list = context;
  if (atomic_load(&device->closed)) return;
  IronDeviceSettle(device, patience_at_exit);
  IronMemoryCheck(device, "open when the process ended");
  Found *found = calloc(1, sizeof *found);
  if (!found) return;
  IronListing listing;
  bool leaks = IronLedgerList(device, &listing) && listing.bytes > IRON_LEAK_THRESHOLD;
  IronListingFree(&listing);
  if (leaks) IronDeviceClose(device);
  if (!leaks || !find(found, device, true)) {
    free(found);
    return;
  }
  found->next = *list;
  *list = found;
}

void IronLeaksAtExit(void) {
  IRON_POOL {
    @try {
      Found *list = NULL;
      IronSubmissionsSettle(patience_at_exit);
      IronRegistryVisit(close_at_exit, &list);
      while (list) {
        Found *found = list;
        list = found->next;
        report(found);
        IronListingFree(&found->listing);
        free(found);
      }
    } @catch (id raised) {
      fprintf(stderr, "ironbridge: looking for leaks at the end of the process failed: %s\n",
              IronErrorDescribeException(raised));
    }
  }
}

#pragma mark Closing

iron_status iron_device_close(iron_device *handle, uint64_t timeout, iron_leaks *leaks) {
  IRON_ENTRY {
    if (leaks) IRON_CLEAR_STRUCT(leaks, "leaks");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronDeviceFinish(device, timeout));
    iron_leaks full = {.size = sizeof full};
    IronLeaksAtClose(device, &full);
    if (leaks) IRON_WRITE_STRUCT(leaks, full);
    return IRON_OK;
  } IRON_LEAVE
}
