#import "forked.h"

#include <pthread.h>

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

static void watch(void) { pthread_atfork(NULL, NULL, start_as_child); }

void IronForkWatch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch);
}
