#import "harness.h"

#include "live_objects.h"
#include "mock_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static test_case *first;
static _Atomic(int) checks, failures;

void harness_register(test_case *added) {
  added->next = first;
  first = added;
}

void harness_check(bool holds, const char *what, const char *file, int line) {
  atomic_fetch_add(&checks, 1);
  if (holds) return;
  atomic_fetch_add(&failures, 1);
  printf("  FAILED %s:%d: %s\n", file, line, what);
}

bool harness_becomes_true(bool (^condition)(void)) {
  for (int waited = 0; waited < 10000; waited++) {
    if (condition()) return true;
    usleep(1000);
  }
  return false;
}

int64_t harness_live(void) {
  int64_t live = mock_live();
  for (const live_objects_class *counted = NULL; (counted = live_objects_next(counted));) {
    live += live_objects_count(counted);
  }
  return live;
}

static void run_case(const test_case *run) {
  int checks_before = atomic_load(&checks), failures_before = atomic_load(&failures);
  @autoreleasepool {
    @try {
      run->body();
    } @catch (NSException *raised) {
      printf("  %s\n", [[raised reason] UTF8String]);
      harness_check(false, "no exception leaves a case", run->name, 0);
    }
  }
  harness_check(atomic_load(&checks) > checks_before, "a case checks something", run->name, 0);
  /* What was dropped on a queue's own thread is gone a moment later. */
  bool clean = harness_becomes_true(^bool {
    return harness_live() == 0;
  });
  harness_check(clean, "nothing is left", run->name, 0);
  for (const live_objects_class *counted = NULL; !clean && (counted = live_objects_next(counted));) {
    if (live_objects_count(counted)) printf("    %s: %lld\n", counted->name, (long long)live_objects_count(counted));
  }
  printf("case %s: %s\n", run->name, atomic_load(&failures) == failures_before ? "ok" : "FAILED");
}

int harness_run(const char *only) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  int cases = 0;
  for (const test_case *next = first; next; next = next->next) {
    if (only && strcmp(only, next->name)) continue;
    run_case(next);
    cases++;
  }
  printf("%d cases, %d checks, %d failures\n", cases, atomic_load(&checks), atomic_load(&failures));
  return cases > 0 && atomic_load(&failures) == 0 ? 0 : 1;
}
