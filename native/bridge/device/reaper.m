#import "reaper.h"

#include <signal.h>
#include <stdatomic.h>

#import "base/entry.h"
#import "registry.h"
#import "residency.h"

static IronMonitor monitor;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool running;                                    /* guarded by `monitor` */
static _Atomic(uint64_t) next = UINT64_MAX;             /* when to look again; changed with `monitor` held */
static const uint64_t FINE = UINT64_C(1000000);         /* nothing hangs on a millisecond */

static void init_monitor(void) { IronMonitorInit(&monitor); }

/* Raises nothing. */
static void reap(IronDevice *device, void *context) {
  uint64_t *soonest = context;
  IronPool *pool = &device->pool;
  IronMonitorLock(&device->monitor);
  uint64_t now = IronNow();
  IronIdleBuffer *expired = IronPoolTakeExpired(pool, &device->memory, now);
  IronIdleBuffer *tired = IronPoolListTired(pool, now);
  IronMemoryCatchUp(&device->memory);
  device->reaping = expired || tired;
  bool working = device->reaping;
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  if (working) {
    IronPoolDiscard(expired, device->metal, "expire");
    IronPoolRest(tired, pool->policy);
  }
  IronResidencyBeat(device, now);
  IronMonitorLock(&device->monitor);
  if (working) {
    IronPoolNoteRest(pool, &device->memory, tired);
    device->reaping = false;
    IronMonitorSignal(&device->monitor);
  }
  uint64_t look = IronPoolNextLook(pool), beat = IronResidencyNextBeat(device);
  if (beat < look) look = beat;
  IronMonitorUnlock(&device->monitor);
  if (look < *soonest) *soonest = look;
}

/* Until nothing is left to expire. */
static void *run(void *unused) {
  (void)unused;
  IronMonitorLock(&monitor);
  while (atomic_load(&next) != UINT64_MAX) {
    if (IronMonitorWaitUntil(&monitor, atomic_load(&next) + FINE)) continue;
    atomic_store(&next, UINT64_MAX); /* before the look, so that what becomes idle during it is not missed */
    IronMonitorUnlock(&monitor);
    soft_schedule_point();
    uint64_t soonest = UINT64_MAX;
    IRON_POOL {
      IronRegistryVisit(reap, &soonest);
    }
    IronMonitorLock(&monitor);
    if (soonest < atomic_load(&next)) atomic_store(&next, soonest);
  }
  running = false;
  IronMonitorUnlock(&monitor);
  return NULL;
}

/* Monitor held. */
static bool start(void) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, NULL, run, NULL) == 0;
  if (started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

bool IronReaperExpect(uint64_t expiry) {
  if (expiry >= atomic_load_explicit(&next, memory_order_relaxed)) return true;
  pthread_once(&once, init_monitor);
  IronMonitorLock(&monitor);
  if (expiry < atomic_load(&next)) {
    atomic_store(&next, expiry);
    if (running)
      IronMonitorSignal(&monitor);
    else
      running = start(); /* without a thread the next return to the pool sees to it */
    if (!running) atomic_store(&next, UINT64_MAX);
  }
  bool expected = running;
  IronMonitorUnlock(&monitor);
  return expected;
}

void IronReaperForget(void) {
  IronMonitorInit(&monitor);
  running = false;
  atomic_store(&next, UINT64_MAX);
}
