/* A mutex with one condition, and waits that end at a deadline. And the bridge's lock discipline.
 *
 * Two kinds of locks. A *leaf* is held for a few lines of plain C; a *gate* lets one thread at a time through a piece
 * of work with Metal.
 *
 *   leaf                        protects
 *   reaper's monitor            when idle memory expires next, and whether the thread runs
 *   registry's monitor          the list of open devices, and who looks at which
 *   IronDevice.monitor          what device.h lists under it: those in flight, memory, pool, ledger, hazards, outcomes
 *   handle.m: locks[], growth   a slot of the handle table; the list of free slots
 *   leaks.m, trace.m: hooks     which function is told
 *
 *   gate                        lets through one
 *   IronPipelines.lock          compilation of the device's own kernels
 *   IronPipelineArchive.gate     uses of the file of pipelines
 *   IronDevice.transfer         copy between host and private memory
 *   IronDevice.commit_order     commit: from its serial number to Metal's commit, so that both have one order
 *   IronResidency.gate          changes of the set of resident buffers
 *
 * Order: a thread takes gates from top to bottom, then leaves from top to bottom, each at most once.
 *
 * Under a leaf no Objective-C message is sent that can raise, and nothing is released whose dealloc may run. What is
 * taken out of a list there is kept in a variable, and dealt with after the unlock. Allowed are: our own methods that
 * only touch what the lock protects, -retain, and -currentAllocatedSize, which reads a number. No function of the
 * caller's (hook, callback) is called under any lock. Under a gate messages may raise, and the gate opens on every way
 * out; what is let go of there has no dealloc that comes to the same gate.
 *
 * Nothing is touched after it was given away: who puts a buffer into the pool, or takes a submission off its list, has
 * read before what it needs of it later.
 *
 * Builds with debug assertions check it: they count the leaves that a thread holds, and end the process when an object
 * of ours is destroyed or an exception is raised or caught while there is one (held_locks.h). */
#ifndef IRON_BRIDGE_MONITOR_H
#define IRON_BRIDGE_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "held_locks.h"

typedef struct IronMonitor {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  _Atomic(uint64_t) signals; /* so far */
  /* For how many nanoseconds a waiter spins before it sleeps; NULL: not at all. */
  uint64_t (*wait_budget)(const void *waited_for);
  const void *waited_for;
} IronMonitor;

void IronMonitorInit(IronMonitor *monitor);
void IronMonitorDestroy(IronMonitor *monitor);
void IronMonitorLock(IronMonitor *monitor);
void IronMonitorUnlock(IronMonitor *monitor);
/* For how many nanoseconds a waiter would spin now. */
uint64_t IronMonitorWaitBudget(const IronMonitor *monitor);
/* Wakes every waiter. */
void IronMonitorSignal(IronMonitor *monitor);
/* The mutex may be free for a moment before this returns: the caller looks again at what it waits for. */
void IronMonitorWait(IronMonitor *monitor);
/* False when the deadline has passed. */
bool IronMonitorWaitUntil(IronMonitor *monitor, uint64_t deadline);

/* A leaf without a condition. */
static inline void IronLeafLock(pthread_mutex_t *leaf) {
  pthread_mutex_lock(leaf);
  held_locks_add();
}
static inline void IronLeafUnlock(pthread_mutex_t *leaf) {
  held_locks_remove();
  pthread_mutex_unlock(leaf);
}

/* Waits until the gate is free, and closes it behind the caller. */
void IronGateEnter(pthread_mutex_t *gate);
void IronGateLeave(pthread_mutex_t *gate);

/* Nanoseconds on the monotonic clock. */
uint64_t IronNow(void);
/* `timeout` nanoseconds from now on the monotonic clock; UINT64_MAX is never. */
uint64_t IronDeadlineAfter(uint64_t timeout);

#endif
