/* The devices of this process that are open: for what comes from no call, the clock and the end of the process. */
#ifndef IRON_BRIDGE_REGISTRY_H
#define IRON_BRIDGE_REGISTRY_H

#import "device.h"

void IronRegistryAdd(IronDevice *device);
/* The first thing in a device's dealloc: when it returns, nobody else looks at the device any more. */
void IronRegistryRemove(IronDevice *device);

/* Calls `visit` for each open device, none of which goes away meanwhile, without a lock. */
void IronRegistryVisit(void (*visit)(IronDevice *device, void *context), void *context);

/* In the child of a fork, before anything else: the devices are inherited ones from now on, and none is listed. */
void IronRegistryForget(void);

#endif
