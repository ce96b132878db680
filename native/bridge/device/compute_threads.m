/* The threads that the software device computes on. */
#import "device.h"
#import "base/entry.h"
#import "softmetal.h"

static IronDevice *software(iron_device *handle, iron_status *status) {
  IronDevice *device = IronDeviceAcquire(handle);
  *status = device ? IRON_OK : IRON_ERROR_INVALID_HANDLE;
  if (device && device->kind != IRON_DEVICE_SOFTWARE)
    *status = IronErrorReport(IRON_ERROR_UNSUPPORTED,
                              "device: a GPU's threads are its own; only the software device's can be set");
  return device;
}

static iron_status report(SoftMetalChange change, const char *argument, NSString *reason) {
  switch (change) {
  case SoftMetalChanged: return IRON_OK;
  case SoftMetalChangeRefused: return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %s", argument, [reason UTF8String]);
  case SoftMetalChangeUnsupported: return IronErrorReport(IRON_ERROR_UNSUPPORTED, "%s: %s", argument, [reason UTF8String]);
  case SoftMetalChangeFailed: break;
  }
  return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "%s: %s", argument, [reason UTF8String]);
}

iron_status iron_compute_threads(iron_device *handle, uint32_t *threads) {
  IRON_ENTRY {
    if (!threads) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "threads is NULL");
    *threads = 0;
    iron_status status;
    software(handle, &status);
    if (status == IRON_OK) *threads = SoftMetalThreads();
    return status;
  } IRON_LEAVE
}

iron_status iron_compute_set_threads(iron_device *handle, uint32_t threads) {
  IRON_ENTRY {
    iron_status status;
    software(handle, &status);
    if (status != IRON_OK) return status;
    NSString *reason = nil;
    return report(SoftMetalSetThreads(threads, &reason), "threads", reason);
  } IRON_LEAVE
}

iron_status iron_compute_pin(iron_device *handle, const uint32_t *processors, size_t count) {
  IRON_ENTRY {
    if (count && !processors) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "processors is NULL");
    iron_status status;
    software(handle, &status);
    if (status != IRON_OK) return status;
    NSString *reason = nil;
    return report(SoftMetalPinThreads(processors, count, &reason), "processors", reason);
  } IRON_LEAVE
}
