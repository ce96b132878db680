/* What is still allocated when it should not be: found, named, purged, reported. */
#ifndef IRON_BRIDGE_LEAKS_H
#define IRON_BRIDGE_LEAKS_H

#import "device.h"

/* Looks at a device that is closed, purges what is left, and reports it when it is beyond the threshold. `leaks` may be
 * NULL; its list is not handed out. */
void IronLeaksAtClose(IronDevice *device, iron_leaks *leaks);
/* The same for all open devices, which this closes. */
void IronLeaksAtExit(void);

/* IRONBRIDGE_MEMORY_CHECK: the device's statistics on stderr. */
void IronMemoryCheck(IronDevice *device, const char *when);

/* In the child of a fork: no thread is left that could hold the hook's lock. */
void IronLeaksForget(void);

#endif
