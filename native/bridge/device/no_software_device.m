/* A build without software Metal devices: Metal's are all there are. */
#import "software_device.h"

#import "base/error.h"

uint32_t IronSoftwareCount(void) { return 0; }

iron_status IronSoftwareOpen(IronSoftwareDevice *device, const char *backend, const char *configuration) {
  (void)configuration;
  *device = (IronSoftwareDevice){0};
  return IronErrorReport(IRON_ERROR_UNSUPPORTED,
                         "selector: \"%s\" is no device of Metal's, and this build has no other: it is without the "
                         "feature software-device",
                         backend);
}

const IronExtras *IronSoftwareExtras(id<MTLDevice> metal, BOOL *is_cpu) {
  (void)metal;
  *is_cpu = NO;
  return NULL;
}
