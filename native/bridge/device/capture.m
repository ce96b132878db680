/* A capture of the device's commands for Xcode's Metal debugger. */
#import <Metal/Metal.h>

#import "base/entry.h"
#import "base/text.h"
#import "device.h"

static iron_status start(IronDevice *device, NSString *path) {
  MTLCaptureManager *manager = [MTLCaptureManager sharedCaptureManager];
  if (![manager supportsDestination:MTLCaptureDestinationGPUTraceDocument])
    return IronErrorReport(IRON_ERROR_UNSUPPORTED,
                           "this process cannot write captures: start it with MTL_CAPTURE_ENABLED=1");
  if ([manager isCapturing]) return IronErrorReport(IRON_ERROR_STATE, "device: a capture is under way in this process");
  MTLCaptureDescriptor *descriptor = [[[MTLCaptureDescriptor alloc] init] autorelease];
  [descriptor setCaptureObject:device->queue];
  [descriptor setDestination:MTLCaptureDestinationGPUTraceDocument];
  [descriptor setOutputURL:[NSURL fileURLWithPath:path]];
  NSError *error = nil;
  if ([manager startCaptureWithDescriptor:descriptor error:&error]) return IRON_OK;
  return IronErrorReport(IRON_ERROR_FILE, "path: %s: %s", [path UTF8String], IronErrorDescribe(error));
}

iron_status iron_capture_begin(iron_device *handle, const char *path) {
  IRON_ENTRY {
    NSString *text;
    IRON_TRY(IronPathRead(&text, path));
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if ([[NSFileManager defaultManager] fileExistsAtPath:text])
      return IronErrorReport(IRON_ERROR_FILE, "path: %s: there is such a file already", path);
    if (atomic_exchange(&device->capturing, true))
      return IronErrorReport(IRON_ERROR_STATE, "device: a capture of it is under way");
    iron_status status = IRON_ERROR_INTERNAL;
    @try {
      status = start(device, text);
    } @finally {
      if (status != IRON_OK) atomic_store(&device->capturing, false);
    }
    return status;
  } IRON_LEAVE
}

iron_status iron_capture_end(iron_device *handle) {
  IRON_ENTRY {
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if (!atomic_exchange(&device->capturing, false))
      return IronErrorReport(IRON_ERROR_STATE, "device: no capture of it is under way");
    [[MTLCaptureManager sharedCaptureManager] stopCapture];
    return IRON_OK;
  } IRON_LEAVE
}
