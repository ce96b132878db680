/* stress-api: random calls of every function of ironbridge's headers, with right, wrong, stale and made-up arguments,
 * from many threads at once. Run it by `make stress-api`, under AddressSanitizer and ThreadSanitizer.
 *
 *   stress-api [SECONDS [THREADS [SEED]]]
 *   stress-api --functions              lists the functions that it calls
 *   stress-api --keep-a-buffer          fails, as it must: one buffer is not given back
 *
 * The time is divided among 1, 2, 4 … THREADS threads. After each part everything is given back, and the library must
 * have nothing left. With the same SEED each thread makes the same calls with the same arguments; what the others do
 * meanwhile is up to the system. A call that takes longer than HANG seconds (the environment's, 60) is a failure. With
 * IRONBRIDGE_PUBLISH the folder's file of this process is read and written as a monitor may do it. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "books.h"
#include "calls.h"

typedef struct Settings {
  double seconds;
  unsigned threads, hang;
  unsigned patience; /* milliseconds: see books.h */
  uint64_t seed;
} Settings;

static Settings settings = {.seconds = 10, .threads = 8, .hang = 60, .patience = 10000};
static atomic_bool stop, finished;
static uint64_t phase;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The first calls are one of each kind, in order: none is left out, however short the run. */
static void *work(void *argument) {
  unsigned thread = (unsigned)(uintptr_t)argument;
  record_thread(thread);
  Call call = {.scratch = calloc(1, SCRATCH)};
  if (!call.scratch) abort();
  for (uint64_t step = 0; !atomic_load_explicit(&stop, memory_order_relaxed) || step < calls_count(); step++) {
    call.random = random_for(settings.seed, phase, thread, step);
    record_step(phase, step);
    if (step < calls_count())
      calls_make(&call, (unsigned)step);
    else
      calls_make_any(&call);
  }
  free(call.scratch);
  return NULL;
}

static void hung(int signal) {
  (void)signal;
  record_report("HANG: a call does not return");
  abort();
}

/* A crash says what each thread was doing. AddressSanitizer has signal handlers of its own, which must stay, and calls
 * this. */
static void died(void) {
  if (!atomic_load(&finished)) record_report("the process dies");
}

void __asan_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void crashed(int signal_number) {
  died();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static void watch_for_crashes(void) {
  signal(SIGALRM, hung);
  if (__asan_set_death_callback) {
    __asan_set_death_callback(died);
    return;
  }
  signal(SIGSEGV, crashed);
  signal(SIGBUS, crashed);
}

static void run_phase(unsigned threads, double seconds, iron_device *witness) {
  pthread_t started[MAX_THREADS];
  double start = now();
  uint64_t calls = record_calls();
  phase += 1;
  atomic_store(&stop, false);
  alarm((unsigned)seconds + 2 * settings.hang);
  for (unsigned index = 0; index < threads; index++)
    if (pthread_create(&started[index], NULL, work, (void *)(uintptr_t)(index + 1)) != 0) abort();
  while (now() - start < seconds) {
    usleep(50000);
    if (record_is_stuck(settings.hang)) hung(SIGALRM);
  }
  atomic_store(&stop, true);
  for (unsigned index = 0; index < threads; index++) pthread_join(started[index], NULL);

  alarm(2 * settings.hang);
  process_calls_end();
  handles_release_all();
  /* The witness was lent to all as references of their own. */
  books_check_device(witness, settings.patience);
  buffer_calls_end();
  alarm(0);
  calls = record_calls() - calls;
  double took = now() - start;
  printf("%2u threads: %" PRIu64 " calls in %.1f s, %.0f a minute\n", threads, calls, took, (double)calls / took * 60);
  fflush(stdout);
}

static iron_device *open_witness(void) {
  iron_device *device = NULL;
  if (CALL(iron_device_open, "cpu", NULL, &device) != IRON_OK) {
    fprintf(stderr, "stress-api: %s\n", iron_last_error());
    exit(1);
  }
  handles_set_witness(device);
  metal_calls_prepare();
  kernel_calls_prepare(device);
  return device;
}

static void run(bool keep) {
  iron_device *witness = open_witness();
  iron_buffer *kept = NULL;
  if (keep) CALL(iron_buffer_create, witness, 1, NULL, &kept);
  unsigned phases = 1;
  for (unsigned threads = 1; threads < settings.threads; threads *= 2) phases += 1;
  for (unsigned threads = 1; threads < settings.threads; threads *= 2)
    run_phase(threads, settings.seconds / phases, witness);
  run_phase(settings.threads, settings.seconds / phases, witness);
  /* A slow machine gets more time to call each function with success. */
  for (unsigned more = 0; more < phases && !keep && !record_all_succeeded(); more++)
    run_phase(1, settings.seconds / phases, witness);
  alarm(2 * settings.hang);
  handles_set_witness(NULL);
  CALL(iron_device_release, witness);
  books_check_process(settings.patience);
  alarm(0);
}

static void list_functions(void) {
#define X(name) puts(#name);
  FUNCTIONS(X)
#undef X
}

static void read_settings(int count, char **arguments) {
  const char *hang = getenv("HANG");
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  settings.seed = (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
  if (count > 1) settings.seconds = strtod(arguments[1], NULL);
  if (count > 2) settings.threads = (unsigned)strtoul(arguments[2], NULL, 10);
  if (count > 3 && *arguments[3]) settings.seed = strtoull(arguments[3], NULL, 10);
  if (hang) settings.hang = (unsigned)strtoul(hang, NULL, 10);
  if (settings.seconds > 0 && settings.seconds < 1e6 && settings.threads >= 1 && settings.threads <= MAX_THREADS &&
      settings.hang > 0)
    return;
  fprintf(stderr, "stress-api: SECONDS > 0, THREADS from 1 to %d, HANG > 0\n", MAX_THREADS);
  exit(2);
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "--functions") == 0) {
    list_functions();
    return 0;
  }
  bool keep = count > 1 && strcmp(arguments[1], "--keep-a-buffer") == 0;
  if (keep)
    settings = (Settings){.seconds = 1, .threads = 1, .hang = settings.hang, .patience = 200};
  else
    read_settings(count, arguments);
  printf("seed %" PRIu64 "\n", settings.seed);
  fflush(stdout);
  watch_for_crashes();
  record_thread(0);

  run(keep);
  atomic_store(&finished, true);
  record_print();
  printf("%" PRIu64 " calls, %" PRIu64 " failures, seed %" PRIu64 "\n", record_calls(), failures(), settings.seed);
  return failures() ? 1 : 0;
}
