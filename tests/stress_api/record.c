#include "record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STATUSES = 65, TOO_MANY = 200, NOTHING = FUNCTION_COUNT };

static const char *const names[] = {
#define X(name) #name,
    FUNCTIONS(X)
#undef X
};

/* Other threads read what is atomic at any time, the counts after a join. */
typedef struct Thread {
  _Atomic(uint32_t) function, last; /* NOTHING: none */
  _Atomic(uint64_t) began;          /* nanoseconds */
  _Atomic(uint64_t) phase, step;
  _Atomic(uint64_t) calls[FUNCTION_COUNT], successes[FUNCTION_COUNT];
  _Atomic(uint64_t) answers[STATUSES];
  _Atomic(uint64_t) callbacks;
} Thread;

/* The last one is for threads of the library's own, which call back. */
static Thread threads[MAX_THREADS + 2];
static _Thread_local unsigned own = MAX_THREADS + 1;
static _Atomic(uint64_t) failed;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void set(_Atomic(uint64_t) *value, uint64_t to) { atomic_store_explicit(value, to, memory_order_relaxed); }
static uint64_t get(_Atomic(uint64_t) *value) { return atomic_load_explicit(value, memory_order_relaxed); }
static void count(_Atomic(uint64_t) *value) { atomic_fetch_add_explicit(value, 1, memory_order_relaxed); }

void record_thread(unsigned thread) {
  own = thread;
  atomic_store(&threads[own].function, NOTHING);
  atomic_store(&threads[own].last, NOTHING);
}

unsigned record_own_thread(void) { return own; }

void record_step(uint64_t phase, uint64_t step) {
  set(&threads[own].phase, phase);
  set(&threads[own].step, step);
}

void record_begin(Function function) {
  Thread *thread = &threads[own];
  count(&thread->calls[function]);
  set(&thread->began, now());
  atomic_store_explicit(&thread->function, function, memory_order_relaxed);
}

static bool is_known(iron_status status) {
  return status <= IRON_ERROR_CHAT ||
         (status >= IRON_ERROR_DEVICE_TIMEOUT && status <= IRON_ERROR_DEVICE_INTERNAL);
}

iron_status record_end(Function function, iron_status status) {
  Thread *thread = &threads[own];
  atomic_store_explicit(&thread->last, function, memory_order_relaxed);
  atomic_store_explicit(&thread->function, NOTHING, memory_order_relaxed);
  if (status == IRON_OK) count(&thread->successes[function]);
  if ((unsigned)status < STATUSES) count(&thread->answers[status]);
  if (!is_known(status))
    failure("%s answered %d, %s: %s", names[function], (int)status, iron_status_name(status), iron_last_error());
  else if (status != IRON_OK && !*iron_last_error())
    failure("%s answered %s without a message", names[function], iron_status_name(status));
  return status;
}

void record_callback(void) { count(&threads[own].callbacks); }

void failure(const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "FAILURE: %s (phase %" PRIu64 ", thread %u, step %" PRIu64 ")\n", text, get(&threads[own].phase), own,
          get(&threads[own].step));
  if (atomic_fetch_add(&failed, 1) + 1 < TOO_MANY) return;
  record_report("too many failures");
  abort();
}

uint64_t failures(void) { return atomic_load(&failed); }

bool record_is_stuck(unsigned limit) {
  uint64_t time = now();
  for (unsigned index = 0; index <= MAX_THREADS; index++) {
    Thread *thread = &threads[index];
    uint64_t began = get(&thread->began);
    bool inside = began && atomic_load(&thread->function) != NOTHING;
    if (inside && time > began && time - began > limit * UINT64_C(1000000000)) return true;
  }
  return false;
}

static char *append(char *end, const char *text) {
  size_t length = strlen(text);
  memcpy(end, text, length);
  return end + length;
}

static char *append_number(char *end, uint64_t number) {
  char digits[20];
  int length = 0;
  do {
    digits[length++] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  while (length) *end++ = digits[--length];
  return end;
}

static void print(const char *text, const char *end) {
  ssize_t written = write(STDERR_FILENO, text, (size_t)(end - text));
  (void)written;
}

void record_report(const char *why) {
  char line[512];
  print(line, append(append(append(line, "stress-api: "), why), "\n"));
  uint64_t time = now();
  for (unsigned index = 0; index <= MAX_THREADS; index++) {
    Thread *thread = &threads[index];
    uint64_t began = get(&thread->began);
    if (!began) continue;
    uint32_t function = atomic_load(&thread->function), last = atomic_load(&thread->last);
    char *end = append_number(append(line, "  thread "), index);
    end = append_number(append(end, ", phase "), get(&thread->phase));
    end = append_number(append(end, ", step "), get(&thread->step));
    if (function != NOTHING) {
      end = append(append(append(end, ": in "), names[function]), " for ");
      end = append(append_number(end, (time - began) / 1000000), " ms");
    } else {
      end = append(append(end, ": outside, last "), last == NOTHING ? "nothing" : names[last]);
    }
    print(line, append(end, "\n"));
  }
}

static uint64_t calls_of(int function) {
  uint64_t sum = 0;
  for (unsigned index = 0; index < MAX_THREADS + 2; index++) sum += get(&threads[index].calls[function]);
  return sum;
}

static uint64_t successes_of(int function) {
  uint64_t sum = 0;
  for (unsigned index = 0; index < MAX_THREADS + 2; index++) sum += get(&threads[index].successes[function]);
  return sum;
}

/* No device here runs a metallib. */
static bool should_succeed(int function) { return function != FUNCTION_iron_library_open; }

bool record_all_succeeded(void) {
  for (int function = 0; function < FUNCTION_COUNT; function++)
    if (should_succeed(function) && successes_of(function) == 0) return false;
  return true;
}

uint64_t record_calls(void) {
  uint64_t sum = 0;
  for (int function = 0; function < FUNCTION_COUNT; function++) sum += calls_of(function);
  return sum;
}

void record_print(void) {
  printf("%12s %12s\n", "calls", "succeeded");
  for (int function = 0; function < FUNCTION_COUNT; function++) {
    uint64_t calls = calls_of(function), successes = successes_of(function);
    printf("%12" PRIu64 " %12" PRIu64 "  %s\n", calls, successes, names[function]);
    if (successes == 0 && should_succeed(function)) failure("%s was never called with success", names[function]);
  }
  printf("%12s\n", "answers");
  for (int status = 0; status < STATUSES; status++) {
    uint64_t sum = 0;
    for (unsigned index = 0; index < MAX_THREADS + 2; index++) sum += get(&threads[index].answers[status]);
    if (sum) printf("%12" PRIu64 "  %s\n", sum, iron_status_name((iron_status)status));
  }
  uint64_t callbacks = 0;
  for (unsigned index = 0; index < MAX_THREADS + 2; index++) callbacks += get(&threads[index].callbacks);
  printf("%12" PRIu64 "  callbacks\n", callbacks);
}
