#include "monitor.h"

#include <time.h>

enum { NANOSECONDS = 1000000000 };

void IronMonitorInit(IronMonitor *monitor) {
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

void IronMonitorLock(IronMonitor *monitor) { pthread_mutex_lock(&monitor->mutex); }
void IronMonitorUnlock(IronMonitor *monitor) { pthread_mutex_unlock(&monitor->mutex); }
void IronMonitorSignal(IronMonitor *monitor) { pthread_cond_broadcast(&monitor->changed); }
void IronMonitorWait(IronMonitor *monitor) { pthread_cond_wait(&monitor->changed, &monitor->mutex); }

uint64_t IronNow(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * NANOSECONDS + (uint64_t)time.tv_nsec;
}

uint64_t IronDeadlineAfter(uint64_t timeout) {
  uint64_t deadline;
  return __builtin_add_overflow(IronNow(), timeout, &deadline) ? UINT64_MAX : deadline;
}

bool IronMonitorWaitUntil(IronMonitor *monitor, uint64_t deadline) {
  if (deadline == UINT64_MAX) {
    IronMonitorWait(monitor);
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
