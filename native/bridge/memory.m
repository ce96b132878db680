#import "memory.h"

#import "device.h"
#import "entry.h"
#import "structs.h"

static void publish(IronMemory *memory) {
  const IronPublishedFigures figures = {.memory_limit = UINT64_MAX,
                                        .active_bytes = memory->active_bytes,
                                        .active_buffers = memory->active_buffers,
                                        .cached_bytes = memory->categories[IRON_CATEGORY_POOL].bytes,
                                        .cached_buffers = memory->categories[IRON_CATEGORY_POOL].count,
                                        .peak_bytes = memory->peak_bytes,
                                        .allocations = memory->allocations,
                                        .releases = memory->releases,
                                        .pool_hits = memory->pool_hits,
                                        .pool_misses = memory->pool_misses};
  uint64_t requests = IronPublicationWrite(&memory->publication, &figures);
  if (requests & IRON_PUBLISHED_RESET_PEAK) memory->peak_bytes = memory->active_bytes;
}

/* Categories that buffers in use are counted under. */
static bool is_of_buffers(iron_category category) { return category < IRON_CATEGORY_POOL; }

void IronMemoryAdd(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes += bytes;
  memory->categories[category].count += 1;
  if (is_of_buffers(category)) {
    memory->active_bytes += bytes;
    memory->active_buffers += 1;
    memory->allocations += 1;
    if (memory->peak_bytes < memory->active_bytes) memory->peak_bytes = memory->active_bytes;
  }
  publish(memory);
}

void IronMemoryRemove(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes -= bytes;
  memory->categories[category].count -= 1;
  if (is_of_buffers(category)) {
    memory->active_bytes -= bytes;
    memory->active_buffers -= 1;
    memory->releases += 1;
  }
  publish(memory);
}

iron_status iron_memory_describe(iron_device *handle, iron_memory_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    iron_memory_info full = {.device_bytes = [device->metal currentAllocatedSize]};
    IronMonitorLock(&device->monitor);
    full.active_bytes = device->memory.active_bytes;
    full.peak_bytes = device->memory.peak_bytes;
    full.pool_bytes = device->pool.bytes;
    full.pool_buffers = device->pool.buffers;
    full.pool_hits = device->memory.pool_hits;
    full.pool_misses = device->memory.pool_misses;
    full.in_flight = device->in_flight;
    for (int category = 0; category < IRON_CATEGORY_COUNT; category++)
      full.categories[category] = device->memory.categories[category];
    full.categories[IRON_CATEGORY_QUEUES].count = 1 + device->open + device->in_flight;
    IronMonitorUnlock(&device->monitor);
    IronStructWrite(info, &full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_memory_purge(iron_device *handle, uint64_t *freed) {
  IRON_ENTRY {
    if (freed) *freed = 0;
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronMonitorLock(&device->monitor);
    IronIdleBuffer *idle = IronPoolTakeAll(&device->pool, &device->memory);
    IronMonitorUnlock(&device->monitor);
    uint64_t bytes = IronPoolDiscard(idle);
    if (freed) *freed = bytes;
    return IRON_OK;
  } IRON_LEAVE
}
