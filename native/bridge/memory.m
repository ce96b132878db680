#import "memory.h"

#import "device.h"
#import "entry.h"
#import "structs.h"

void IronMemoryAdd(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes += bytes;
  memory->categories[category].count += 1;
  if (category == IRON_CATEGORY_POOL) return;
  memory->active_bytes += bytes;
  if (memory->peak_bytes < memory->active_bytes) memory->peak_bytes = memory->active_bytes;
}

void IronMemoryRemove(IronMemory *memory, iron_category category, uint64_t bytes) {
  memory->categories[category].bytes -= bytes;
  memory->categories[category].count -= 1;
  if (category != IRON_CATEGORY_POOL) memory->active_bytes -= bytes;
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
