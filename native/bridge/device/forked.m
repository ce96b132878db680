#import "forked.h"

#include <pthread.h>
#ifndef __APPLE__
#include <objc/thr.h>
#endif

#import "base/handle.h"
#import "leaks.h"
#import "reaper.h"
#import "registry.h"
#import "schedule.h"
#import "submission.h"
#import "trace.h"

/* On the child's one thread, which held no leaf (see monitor.h): fork is the caller's, and no function of the caller's
 * runs under one. */
static void start_as_child(void) {
  soft_schedule_forget();
  IronRegistryForget();
  IronReaperForget();
  IronSubmissionsForget();
  IronHandlesForget();
  IronLeaksForget();
  IronTraceForget();
}

#ifdef __APPLE__
/* Apple's runtime takes care of its own locks. */
static void watch(void) { pthread_atfork(NULL, NULL, start_as_child); }
#else
/* The one lock of GCC's runtime, which classes are looked up under, also by GNUstep for each new object. In a child the
 * thread that holds it may be gone, so fork waits for it, and parent and child give it back. libobjc exports it for
 * its own parts (objc-private/runtime.h of its source) and has no handler of its own. */
extern objc_mutex_t __objc_runtime_mutex;

static void hold_runtime(void) { objc_mutex_lock(__objc_runtime_mutex); }

static void leave_runtime(void) { objc_mutex_unlock(__objc_runtime_mutex); }

static void leave_runtime_as_child(void) {
  leave_runtime();
  start_as_child();
}

static void watch(void) { pthread_atfork(hold_runtime, leave_runtime, leave_runtime_as_child); }
#endif

void IronForkWatch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch);
}
