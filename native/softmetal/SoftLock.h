/* The locks of this folder, and their discipline.
 *
 *   lock                   protects
 *   SoftQueue._lock        how many command buffers of the queue are not complete
 *   SoftQueueOrder._lock   the order of its command buffers that are not submitted; a backend's locks come after it
 *   SoftEvent._lock        its value and its waiters; may be taken under an order's
 *   SoftReferent._lock     who uses a buffer or a pipeline, whether its owner is gone, and a buffer's purgeable state
 *   SoftHeapSpace._lock    which ranges of a heap are taken, who uses it, and its purgeable state
 *   schedule.c: lock       whose turn it is (schedule.h); may be taken under any other
 *
 * A thread holds one of them at a time but where the table says so, for a few lines. Under it nothing is raised,
 * nothing is released whose dealloc may run, no block or handler of a user's is called and no kernel runs: what was
 * found under the lock is kept in a variable and dealt with after the unlock. Messages go only to objects of this
 * folder, and to methods that take no lock. A handler runs without any lock of ours, and what it completes is not
 * touched after the order's `didFinish:`.
 *
 * Builds with debug assertions check it where something raises and where a buffer is destroyed (held_locks.h). */
#ifndef SOFT_LOCK_H
#define SOFT_LOCK_H

#include <pthread.h>

#include "held_locks.h"

static inline void soft_lock(pthread_mutex_t *lock) {
  pthread_mutex_lock(lock);
  held_locks_add();
}

static inline void soft_unlock(pthread_mutex_t *lock) {
  held_locks_remove();
  pthread_mutex_unlock(lock);
}

#endif
