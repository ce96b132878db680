/* A mutex with one condition, and waits that end at a deadline. */
#ifndef IRON_BRIDGE_MONITOR_H
#define IRON_BRIDGE_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct IronMonitor {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  _Atomic(uint64_t) signals; /* so far */
  uint64_t (*patience)(void); /* for how many nanoseconds a waiter looks for a signal before it sleeps; NULL: none */
} IronMonitor;

void IronMonitorInit(IronMonitor *monitor);
void IronMonitorDestroy(IronMonitor *monitor);
void IronMonitorLock(IronMonitor *monitor);
void IronMonitorUnlock(IronMonitor *monitor);
/* For how many nanoseconds a waiter would look now. */
uint64_t IronMonitorPatience(const IronMonitor *monitor);
/* Wakes every waiter. */
void IronMonitorSignal(IronMonitor *monitor);
void IronMonitorWait(IronMonitor *monitor);
/* False when the deadline has passed. */
bool IronMonitorWaitUntil(IronMonitor *monitor, uint64_t deadline);

/* Nanoseconds on the monotonic clock. */
uint64_t IronNow(void);
/* `timeout` nanoseconds from now on the monotonic clock; UINT64_MAX is never. */
uint64_t IronDeadlineAfter(uint64_t timeout);

#endif
