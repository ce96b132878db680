/* Gives memory back on request, and says what that brought. */
#import "device.h"
#import "base/entry.h"
#import "base/structs.h"
#import "submission.h"

/* Waits for what is in flight now. Failures stay where they are. */
static bool settle(IronDevice *device, uint64_t timeout, uint64_t *command_buffers) {
  IronMonitorLock(&device->monitor);
  *command_buffers = device->in_flight;
  IronMonitorUnlock(&device->monitor);
  bool in_time = IronDeviceSettle(device, timeout);
  IronMonitorLock(&device->monitor);
  if (!in_time) *command_buffers -= device->in_flight < *command_buffers ? device->in_flight : *command_buffers;
  IronMonitorUnlock(&device->monitor);
  return in_time;
}

static IronDiscarded purge(IronDevice *device) {
  IronDeviceLockPool(device);
  IronIdleBuffer *idle = IronPoolTakeOldest(&device->pool, &device->memory, UINT64_MAX);
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  return IronPoolDiscard(idle, device->metal, "purge");
}

iron_status iron_memory_reclaim(iron_device *handle, iron_reclaim what, uint64_t timeout, iron_reclaimed *reclaimed) {
  IRON_ENTRY {
    if (reclaimed) IRON_CLEAR_STRUCT(reclaimed, "reclaimed");
    if (what < IRON_RECLAIM_SYNC || what > IRON_RECLAIM_CLEANUP)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "what: %u is none", what);
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if (what != IRON_RECLAIM_PURGE) IRON_TRY(IronSubmissionsCheckWait());
    iron_reclaimed full = {.device_before = [device->metal currentAllocatedSize]};
    bool in_time = what == IRON_RECLAIM_PURGE || settle(device, timeout, &full.command_buffers);
    IronDiscarded discarded = what == IRON_RECLAIM_SYNC ? (IronDiscarded){.bytes = 0} : purge(device);
    full.buffers = discarded.buffers;
    full.buffer_bytes = discarded.bytes;
    if (what == IRON_RECLAIM_CLEANUP) IronMemoryReset(device, IRON_RESET_PEAK | IRON_RESET_COUNTERS);
    full.device_after = [device->metal currentAllocatedSize];
    full.freed_bytes = full.device_before > full.device_after ? full.device_before - full.device_after : 0;
    if (reclaimed) IRON_WRITE_STRUCT(reclaimed, full);
    if (in_time) return IRON_OK;
    return IronErrorReport(IRON_ERROR_TIMEOUT, "the device still works after %llu ns", (unsigned long long)timeout);
  } IRON_LEAVE
}
