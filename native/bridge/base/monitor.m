#include "monitor.h"

#include <time.h>

#include "schedule.h"

enum { NANOSECONDS = 1000000000 };

void IronMonitorInit(IronMonitor *monitor) {
  atomic_init(&monitor->signals, 0);
  monitor->wait_budget = NULL;
  monitor->waited_for = NULL;
  pthread_mutex_init(&monitor->mutex, NULL);
#ifdef __APPLE__
  pthread_cond_init(&monitor->changed, NULL);
#else
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&monitor->changed, &attributes);
  pthread_condattr_destroy(&attributes);
#endif
}

void IronMonitorDestroy(IronMonitor *monitor) {
  pthread_cond_destroy(&monitor->changed);
  pthread_mutex_destroy(&monitor->mutex);
}

void IronMonitorLock(IronMonitor *monitor) { IronLeafLock(&monitor->mutex); }
void IronMonitorUnlock(IronMonitor *monitor) { IronLeafUnlock(&monitor->mutex); }

void IronGateEnter(pthread_mutex_t *gate) {
  soft_schedule_point();
  if (pthread_mutex_trylock(gate) == 0) return;
  while (soft_schedule_is_on()) {
    soft_schedule_wait(gate);
    if (pthread_mutex_trylock(gate) == 0) return;
  }
  pthread_mutex_lock(gate);
}

void IronGateLeave(pthread_mutex_t *gate) {
  pthread_mutex_unlock(gate);
  soft_schedule_wake(gate);
}

uint64_t IronMonitorWaitBudget(const IronMonitor *monitor) {
  return monitor->wait_budget ? monitor->wait_budget(monitor->waited_for) : 0;
}

void IronMonitorSignal(IronMonitor *monitor) {
  atomic_fetch_add(&monitor->signals, 1);
  pthread_cond_broadcast(&monitor->changed);
  soft_schedule_wake(monitor);
}

void IronMonitorWait(IronMonitor *monitor) { IronMonitorWaitUntil(monitor, UINT64_MAX); }

uint64_t IronNow(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * NANOSECONDS + (uint64_t)time.tv_nsec;
}

uint64_t IronDeadlineAfter(uint64_t timeout) {
  uint64_t deadline;
  return __builtin_add_overflow(IronNow(), timeout, &deadline) ? UINT64_MAX : deadline;
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Waits without sleeping, until `end` at most; whether there was a signal. Its sender holds the mutex a little longer,
 * and to lock it meanwhile would be to sleep. */
static bool look(IronMonitor *monitor, uint64_t end) {
  enum { LOOKS = 64 }; /* between two at the clock */
  uint64_t seen = atomic_load(&monitor->signals);
  IronMonitorUnlock(monitor);
  do {
    for (int count = 0; count < LOOKS; count++) {
      bool signalled = atomic_load_explicit(&monitor->signals, memory_order_relaxed) != seen;
      if (signalled && pthread_mutex_trylock(&monitor->mutex) == 0) {
        held_locks_add();
        return true;
      }
      relax();
    }
  } while (IronNow() < end);
  IronMonitorLock(monitor);
  return atomic_load(&monitor->signals) != seen;
}

/* Asleep until there is a signal; false when the deadline has passed. */
static bool sleep_until(IronMonitor *monitor, uint64_t deadline) {
  if (deadline == UINT64_MAX) {
    pthread_cond_wait(&monitor->changed, &monitor->mutex);
    return true;
  }
  uint64_t time = IronNow();
  if (time >= deadline) return false;
#ifdef __APPLE__
  uint64_t left = deadline - time;
  struct timespec limit = {.tv_sec = (time_t)(left / NANOSECONDS), .tv_nsec = (long)(left % NANOSECONDS)};
  pthread_cond_timedwait_relative_np(&monitor->changed, &monitor->mutex, &limit);
#else
  struct timespec limit = {.tv_sec = (time_t)(deadline / NANOSECONDS), .tv_nsec = (long)(deadline % NANOSECONDS)};
  pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &limit);
#endif
  return true;
}

/* The same for a thread that takes part in a schedule: it comes back without the mutex. */
static bool sleep_by_schedule(IronMonitor *monitor, uint64_t deadline) {
  soft_sleeper sleeper;
  soft_schedule_sleep(&sleeper, monitor);
  bool in_time = sleep_until(monitor, deadline);
  IronMonitorUnlock(monitor);
  soft_schedule_awake(&sleeper);
  IronMonitorLock(monitor);
  return in_time;
}

bool IronMonitorWaitUntil(IronMonitor *monitor, uint64_t deadline) {
  if (soft_schedule_is_on()) return sleep_by_schedule(monitor, deadline);
  uint64_t budget = IronMonitorWaitBudget(monitor);
  uint64_t start = IronNow();
  if (budget && start < deadline &&
      look(monitor, start + (budget < deadline - start ? budget : deadline - start)))
    return true;
  return sleep_until(monitor, deadline);
}
