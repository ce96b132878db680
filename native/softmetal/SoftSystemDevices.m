/* MTLCreateSystemDefaultDevice and MTLCopyAllDevices, also with an observer, for hosts where no Metal.framework has
 * them. As on a Mac, a device is one object, whoever asks: resources of two callers go together. It lives as long as
 * the process. */
#ifndef __APPLE__

#import "softmetal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The device of a selector, "NAME" or "NAME:CONFIGURATION", with the lock held. nil: it does not open, and the reason
 * is written to stderr. */
static id<MTLDevice> device_of(NSString *selector) {
  static NSMutableDictionary *opened; /* by selector */
  if (!opened) opened = [[NSMutableDictionary alloc] init];
  id<MTLDevice> device = [opened objectForKey:selector];
  if (device) return device;
  NSError *error = nil;
  NSRange colon = [selector rangeOfString:@":"];
  BOOL plain = colon.location == NSNotFound;
  NSString *name = plain ? selector : [selector substringToIndex:colon.location];
  NSString *configuration = plain ? nil : [selector substringFromIndex:NSMaxRange(colon)];
  device = [SoftMetalCreateDevice([name UTF8String], [configuration UTF8String], &error) autorelease];
  if (device)
    [opened setObject:device forKey:selector];
  else
    NSLog(@"Metal: device \"%@\": %@", selector, [error localizedDescription]);
  return device;
}

/* The CPU, and then NVIDIA's GPUs. */
static NSArray *plain_selectors(void) {
  NSMutableArray *selectors = [NSMutableArray arrayWithObject:@"cpu"];
  uint32_t gpus = soft_backend_count("nvidia");
  for (uint32_t gpu = 0; gpu < gpus; gpu++) [selectors addObject:[NSString stringWithFormat:@"nvidia:%u", gpu]];
  return selectors;
}

/* What IRONBRIDGE_DEVICE names: a selector, or an index of the plain ones. */
static NSString *default_selector(void) {
  const char *given = getenv("IRONBRIDGE_DEVICE");
  if (!given || !*given || strcmp(given, "default") == 0) return @"cpu";
  NSArray *plain = plain_selectors();
  if (strspn(given, "0123456789") == strlen(given)) {
    unsigned long index = strtoul(given, NULL, 10);
    if (index < [plain count]) return [plain objectAtIndex:index];
  }
  if (strcmp(given, "nvidia") == 0) return @"nvidia:0";
  return [NSString stringWithUTF8String:given];
}

/* Whether the selector is that of the plain device, maybe with a configuration. */
static BOOL is_device(NSString *selector, NSString *plain) {
  if (![selector hasPrefix:plain]) return NO;
  if ([selector length] == [plain length]) return YES;
  unichar next = [selector characterAtIndex:[plain length]];
  return next == ':' || next == ',';
}

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  id<MTLDevice> device = nil;
  @autoreleasepool {
    pthread_mutex_lock(&lock);
    device = [device_of(default_selector()) retain];
    pthread_mutex_unlock(&lock);
  }
  return device;
}

NSArray *MTLCopyAllDevices(void) {
  NSMutableArray *devices = [[NSMutableArray alloc] init];
  @autoreleasepool {
    NSString *chosen = default_selector();
    BOOL found = NO;
    pthread_mutex_lock(&lock);
    for (NSString *plain in plain_selectors()) {
      BOOL replaced = is_device(chosen, plain);
      found = found || replaced;
      id<MTLDevice> device = device_of(replaced ? chosen : plain);
      if (device) [devices addObject:device];
    }
    id<MTLDevice> other = found ? nil : device_of(chosen);
    if (other) [devices insertObject:other atIndex:0];
    pthread_mutex_unlock(&lock);
  }
  return devices;
}

NSArray *MTLCopyAllDevicesWithObserver(id<NSObject> *observer, MTLDeviceNotificationHandler handler) {
  (void)handler;
  *observer = nil;
  return MTLCopyAllDevices();
}

void MTLRemoveDeviceObserver(id<NSObject> observer) { (void)observer; }

#endif
