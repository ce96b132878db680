/* The threads that the software device computes on. */
#import "device.h"
#import "base/entry.h"

#include <stdlib.h>

static IronDevice *with_threads(iron_device *handle, iron_status *status) {
  IronDevice *device = IronDeviceAcquire(handle);
  *status = device ? IRON_OK : IRON_ERROR_INVALID_HANDLE;
  if (device && !device->extras->set_threads)
    *status = IronErrorReport(IRON_ERROR_UNSUPPORTED,
                              "device: a GPU's threads are its own; only the software device's can be set");
  return device;
}

/* Frees the text. */
static iron_status report(iron_status status, const char *argument, char *text) {
  if (status != IRON_OK) IronErrorReport(status, "%s: %s", argument, text ? text : "the device gave no reason");
  free(text);
  return status;
}

iron_status iron_compute_threads(iron_device *handle, uint32_t *threads) {
  IRON_ENTRY {
    if (!threads) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "threads is NULL");
    *threads = 0;
    iron_status status;
    IronDevice *device = with_threads(handle, &status);
    if (status == IRON_OK) *threads = device->extras->threads();
    return status;
  } IRON_LEAVE
}

iron_status iron_compute_set_threads(iron_device *handle, uint32_t threads) {
  IRON_ENTRY {
    iron_status status;
    IronDevice *device = with_threads(handle, &status);
    if (status != IRON_OK) return status;
    char *text = NULL;
    return report(device->extras->set_threads(threads, &text), "threads", text);
  } IRON_LEAVE
}

iron_status iron_compute_pin(iron_device *handle, const uint32_t *processors, size_t count) {
  IRON_ENTRY {
    if (count && !processors) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "processors is NULL");
    iron_status status;
    IronDevice *device = with_threads(handle, &status);
    if (status != IRON_OK) return status;
    char *text = NULL;
    return report(device->extras->pin_threads(processors, count, &text), "processors", text);
  } IRON_LEAVE
}
