/* Software Metal devices. A build without them has no_software_device.m in place of software_device.m. */
#ifndef SOFTWARE_DEVICE_H
#define SOFTWARE_DEVICE_H

#import "device.h"

typedef struct IronSoftwareDevice {
  id<MTLDevice> metal; /* autoreleased */
  const IronExtras *extras;
} IronSoftwareDevice;

/* How many stand behind Metal's devices: the CPU, then NVIDIA's GPUs. */
uint32_t IronSoftwareCount(void);

/* A new device of the backend of that name. `configuration` may be NULL.
 * IRON_ERROR_NO_DEVICE: there is no such backend. IRON_ERROR_UNSUPPORTED: this build has no software devices. */
iron_status IronSoftwareOpen(IronSoftwareDevice *device, const char *backend, const char *configuration);

/* What a device can do that Metal has no words for, and whether it is the CPU. NULL: it is no software device. */
const IronExtras *IronSoftwareExtras(id<MTLDevice> metal, BOOL *is_cpu);

#endif
