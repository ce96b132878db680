#import "memory.h"

#include <stdatomic.h>
#include <string.h>

#import "device.h"
#import "base/entry.h"
#import "base/structs.h"

/* What a reader has asked for. */
static void answer(IronMemory *memory, uint64_t requests) {
  if (requests & IRON_PUBLISHED_RESET_PEAK) memory->peak = memory->active;
}

static void publish(IronMemory *memory) {
  const IronPublishedFigures figures = {.memory_limit = memory->limit,
                                        .active_bytes = memory->active.bytes,
                                        .active_buffers = memory->active.count,
                                        .cached_bytes = memory->categories[IRON_CATEGORY_POOL].bytes,
                                        .cached_buffers = memory->categories[IRON_CATEGORY_POOL].count,
                                        .peak_bytes = memory->peak.bytes,
                                        .allocations = memory->allocations,
                                        .releases = memory->releases,
                                        .pool_hits = memory->counters.hits,
                                        .pool_misses = memory->counters.misses};
  answer(memory, IronPublicationWrite(&memory->publication, &figures));
}

void IronMemoryCatchUp(IronMemory *memory) { answer(memory, IronPublicationCatchUp(&memory->publication)); }

/* Categories that buffers in use are counted under. */
static bool is_of_buffers(iron_category category) { return category < IRON_CATEGORY_POOL; }

void IronMemoryAdd(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes += bytes;
  memory->categories[category].count += 1;
  if (is_of_buffers(category)) {
    memory->active.bytes += bytes;
    memory->active.count += 1;
    memory->allocations += 1;
    if (memory->peak.bytes < memory->active.bytes) memory->peak.bytes = memory->active.bytes;
    if (memory->peak.count < memory->active.count) memory->peak.count = memory->active.count;
  }
  publish(memory);
}

void IronMemoryRemove(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes -= bytes;
  memory->categories[category].count -= 1;
  if (is_of_buffers(category)) {
    memory->active.bytes -= bytes;
    memory->active.count -= 1;
    memory->releases += 1;
  }
  publish(memory);
}

uint64_t IronMemoryLimited(const IronMemory *memory) {
  return memory->active.bytes - memory->wrapped_bytes + memory->reserved_bytes;
}

void IronMemoryCountOperation(IronMemory *memory) {
  atomic_fetch_add_explicit(&memory->operations, 1, memory_order_relaxed);
  IronPublicationCountOperation(&memory->publication);
}

#pragma mark Figures

/* Monitor held. */
static void describe(IronDevice *device, iron_memory_info *info) {
  const IronMemory *memory = &device->memory;
  info->device_bytes = [device->metal currentAllocatedSize];
  info->active_bytes = memory->active.bytes;
  info->active_buffers = memory->active.count;
  info->peak_bytes = memory->peak.bytes;
  info->peak_buffers = memory->peak.count;
  info->pool_bytes = device->pool.bytes;
  info->pool_buffers = device->pool.buffers;
  info->pool_hits = memory->counters.hits;
  info->pool_misses = memory->counters.misses;
  info->pool_bypasses = memory->counters.bypasses;
  info->pool_evictions = memory->counters.evictions;
  info->pool_expired = memory->counters.expired;
  info->pool_purged = memory->counters.purged;
  info->allocations = memory->allocations;
  info->releases = memory->releases;
  info->operations = atomic_load_explicit(&memory->operations, memory_order_relaxed);
  info->command_buffers = memory->counters.command_buffers;
  info->in_flight = device->in_flight;
  info->rounding_bytes = memory->rounding_bytes;
  info->empty_bytes = memory->empty_bytes;
  info->category_count = IRON_CATEGORY_COUNT;
  uint64_t accounted = memory->rounding_bytes - memory->empty_bytes;
  for (int category = 0; category < IRON_CATEGORY_COUNT; category++) {
    info->categories[category] = memory->categories[category];
    info->baseline[category] = memory->baseline[category];
    accounted += memory->categories[category].bytes;
  }
  info->categories[IRON_CATEGORY_QUEUES].count = 1 + device->open + device->in_flight;
  info->unaccounted_bytes = (int64_t)(info->device_bytes - accounted);
}

void IronMemoryDescribe(IronDevice *device, iron_memory_info *info) {
  memset(info, 0, sizeof *info);
  IronDeviceLockPool(device); /* a program that does nothing at the moment sees exact figures */
  describe(device, info);
  IronMonitorUnlock(&device->monitor);
}

iron_status iron_memory_describe(iron_device *handle, iron_memory_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    iron_memory_info full;
    IronMemoryDescribe(device, &full);
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

void IronMemoryReset(IronDevice *device, uint32_t what) {
  IronMemory *memory = &device->memory;
  IronMonitorLock(&device->monitor);
  if (what & IRON_RESET_PEAK) memory->peak = memory->active;
  if (what & IRON_RESET_BASELINE) {
    memcpy(memory->baseline, memory->categories, sizeof memory->baseline);
    memory->baseline[IRON_CATEGORY_QUEUES].count = 1 + device->open + device->in_flight;
    IronPublicationSetBaseline(&memory->publication, memory->active.bytes);
  }
  if (what & IRON_RESET_COUNTERS) {
    memory->counters = (IronMemoryCounters){.hits = 0};
    atomic_store_explicit(&memory->operations, 0, memory_order_relaxed);
  }
  publish(memory);
  IronMonitorUnlock(&device->monitor);
}

iron_status iron_memory_reset(iron_device *handle, uint32_t what) {
  IRON_ENTRY {
    const uint32_t known = IRON_RESET_PEAK | IRON_RESET_BASELINE | IRON_RESET_COUNTERS;
    if (what == 0 || (what & ~known))
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "what: %#x is no sum of IRON_RESET_…", what);
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronMemoryReset(device, what);
    return IRON_OK;
  } IRON_LEAVE
}

#pragma mark Settings

iron_status iron_memory_configure(iron_device *handle, const iron_memory_settings *given) {
  IRON_ENTRY {
    iron_memory_settings settings;
    IRON_READ_STRUCT(settings, given, "settings");
    if (settings.pool_policy > IRON_IDLE_RELEASE)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "settings: pool_policy %u is none", settings.pool_policy);
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronPool *pool = &device->pool;
    IronDeviceLockPool(device);
    if (settings.memory_limit) device->memory.limit = settings.memory_limit;
    if (settings.pool_max_bytes) pool->max_bytes = settings.pool_max_bytes;
    if (settings.pool_max_buffers) pool->max_buffers = settings.pool_max_buffers;
    if (settings.pool_idle_time) pool->idle_time = settings.pool_idle_time;
    if (settings.pool_max_buffer_bytes) pool->max_buffer_bytes = settings.pool_max_buffer_bytes;
    if (settings.pool_policy) pool->policy = settings.pool_policy;
    IronIdleBuffer *evicted = IronPoolTakeExcess(pool, &device->memory);
    publish(&device->memory);
    IronMonitorUnlock(&device->monitor);
    IronPoolDiscard(evicted, device->metal, "evict");
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_memory_configuration(iron_device *handle, iron_memory_settings *settings) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(settings, "settings");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronMonitorLock(&device->monitor);
    const iron_memory_settings full = {.pool_max_bytes = device->pool.max_bytes,
                                       .pool_max_buffers = device->pool.max_buffers,
                                       .pool_policy = device->pool.policy,
                                       .pool_max_buffer_bytes = device->pool.max_buffer_bytes,
                                       .pool_idle_time = device->pool.idle_time,
                                       .memory_limit = device->memory.limit};
    IronMonitorUnlock(&device->monitor);
    IRON_WRITE_STRUCT(settings, full);
    return IRON_OK;
  } IRON_LEAVE
}
