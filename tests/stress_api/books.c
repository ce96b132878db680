#include "books.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "record.h"

static iron_diagnostics diagnose(void) {
  iron_diagnostics diagnostics = {.size = sizeof diagnostics};
  CALL(iron_diagnose, &diagnostics);
  return diagnostics;
}

static iron_memory_info describe(iron_device *device) {
  iron_memory_info info = {.size = sizeof info};
  CALL(iron_memory_describe, device, &info);
  return info;
}

static void expect(const char *what, int64_t have, int64_t expected) {
  if (have != expected) failure("at the end: %" PRId64 " %s, %" PRId64 " expected", have, what, expected);
}

void books_check_device(iron_device *device, unsigned patience) {
  /* The device's own thread lets go just after it has woken who waits. */
  for (unsigned waited = 0; waited < patience && describe(device).active_buffers; waited += 10) {
    CALL(iron_device_sync, device, UINT64_MAX);
    usleep(10000);
  }
  CALL(iron_memory_reclaim, device, IRON_RECLAIM_PURGE, 0, NULL);
  iron_memory_info info = describe(device);
  expect("bytes on the device", (int64_t)info.device_bytes, 0);
  expect("bytes active", (int64_t)info.active_bytes, 0);
  expect("buffers active", (int64_t)info.active_buffers, 0);
  expect("bytes in the pool", (int64_t)info.pool_bytes, 0);
  expect("buffers in the pool", (int64_t)info.pool_buffers, 0);
  expect("command buffers in flight", (int64_t)info.in_flight, 0);
  expect("buffers made and not given back", (int64_t)(info.allocations - info.releases), 0);
  expect("bytes of rounding", (int64_t)info.rounding_bytes, 0);
  expect("bytes empty", (int64_t)info.empty_bytes, 0);
  expect("bytes unaccounted for", info.unaccounted_bytes, 0);
  for (int category = 0; category < IRON_CATEGORY_CAPACITY; category++)
    expect("bytes in a category", (int64_t)info.categories[category].bytes, 0);
  expect("handles", diagnose().live_handles, 1);
}

static void show(const char *class_name, int64_t live, void *context) {
  (void)context;
  if (live) fprintf(stderr, "%12" PRId64 "  live %s\n", live, class_name);
}

void books_check_process(unsigned patience) {
  for (unsigned waited = 0; waited < patience && diagnose().live_objects; waited += 10) usleep(10000);
  iron_diagnostics end = diagnose();
  expect("handles", end.live_handles, 0);
  expect("objects", end.live_objects, 0);
  expect("objects autoreleased without a pool", end.autoreleased_without_pool > 0 ? end.autoreleased_without_pool : 0,
         0);
  if (end.live_objects) CALL(iron_live_objects, show, NULL);
}
