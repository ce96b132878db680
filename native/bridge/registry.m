#import "registry.h"

#include <stdlib.h>
#include <unistd.h>

#import "leaks.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static IronDevice *first; /* by `next_open`; none is retained */
static pid_t owner;       /* 0: no device was opened yet */

/* A forked child has inherited devices that it must not touch, its parent's leaks are none of its own. */
static void at_exit(void) {
  if (getpid() == owner) IronLeaksAtExit();
}

void IronRegistryAdd(IronDevice *device) {
  pthread_mutex_lock(&lock);
  if (!owner) {
    owner = getpid();
    atexit(at_exit);
  }
  device->next_open = first;
  if (first) first->previous_open = device;
  first = device;
  device->listed = true;
  pthread_mutex_unlock(&lock);
}

void IronRegistryRemove(IronDevice *device) {
  pthread_mutex_lock(&lock);
  if (device->listed) {
    *(device->previous_open ? &device->previous_open->next_open : &first) = device->next_open;
    if (device->next_open) device->next_open->previous_open = device->previous_open;
    device->listed = false;
  }
  pthread_mutex_unlock(&lock);
}

void IronRegistryVisit(void (*visit)(IronDevice *device, void *context), void *context) {
  pthread_mutex_lock(&lock);
  for (IronDevice *device = first; device; device = device->next_open) visit(device, context);
  pthread_mutex_unlock(&lock);
}
