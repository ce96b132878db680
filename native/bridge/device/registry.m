#import "registry.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#import "leaks.h"

static IronMonitor monitor;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static IronDevice *first; /* by `next_open`; none is retained */
static pid_t owner;       /* 0: no device was opened yet */

static void init_monitor(void) { IronMonitorInit(&monitor); }

static void lock(void) {
  pthread_once(&once, init_monitor);
  IronMonitorLock(&monitor);
}

/* A forked child has inherited devices that it must not touch, its parent's leaks are none of its own. */
static void at_exit(void) {
  if (getpid() == owner) IronLeaksAtExit();
}

static void watch_exit(void) { atexit(at_exit); }

void IronRegistryAdd(IronDevice *device) {
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  pthread_once(&watched, watch_exit);
  lock();
  owner = getpid();
  device->next_open = first;
  if (first) first->previous_open = device;
  first = device;
  device->listed = true;
  IronMonitorUnlock(&monitor);
}

void IronRegistryRemove(IronDevice *device) {
  lock();
  if (device->listed) {
    while (device->visitors) IronMonitorWait(&monitor);
    *(device->previous_open ? &device->previous_open->next_open : &first) = device->next_open;
    if (device->next_open) device->next_open->previous_open = device->previous_open;
    device->listed = false;
  }
  IronMonitorUnlock(&monitor);
}

/* Monitor held. */
static void stop_looking(IronDevice *device) {
  if (--device->visitors == 0) IronMonitorSignal(&monitor);
}

static void let_go(IronDevice *device) {
  lock();
  stop_looking(device);
  IronMonitorUnlock(&monitor);
}

/* The device after this one, which the caller looks at until it asks for the one after that; NULL begins. */
static IronDevice *next_device(IronDevice *before) {
  lock();
  IronDevice *device = before ? before->next_open : first;
  if (device) device->visitors += 1;
  if (before) stop_looking(before);
  IronMonitorUnlock(&monitor);
  return device;
}

void IronRegistryVisit(void (*visit)(IronDevice *device, void *context), void *context) {
  for (IronDevice *device = next_device(nil); device; device = next_device(device)) {
    @try {
      visit(device, context);
    } @catch (id raised) {
      let_go(device);
      @throw;
    }
  }
}

void IronRegistryForget(void) {
  /* From front to back the list is whole at every moment. */
  for (IronDevice *device = first; device; device = device->next_open) {
    atomic_store(&device->inherited, true);
    atomic_store(&device->closed, true);
    device->listed = false;
  }
  first = nil;
  owner = 0;
  IronMonitorInit(&monitor);
}
