/* The trace: one event for each recorded operation, with the figures of memory after it, for IRONBRIDGE_MEM_TRACE and
 * for hooks. */
#ifndef IRON_BRIDGE_TRACE_H
#define IRON_BRIDGE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>

#import "device.h"
#include "base/location.h"

extern _Atomic(int) IronTraceListeners;

/* Whether anybody listens: all that an operation pays when nobody does. */
static inline bool IronTraceIsOn(void) {
  return atomic_load_explicit(&IronTraceListeners, memory_order_relaxed) != 0;
}

/* Starts what IRONBRIDGE_MEM_TRACE asks for; once, with the first device. */
void IronTraceStart(void);

/* Tells the listeners of the operation that the entry of this thread has just recorded. */
void IronTraceOperation(IronDevice *device, IronLocation location, const char *shape);

/* In the child of a fork: no thread is left that could hold the hook's lock. */
void IronTraceForget(void);

#endif
