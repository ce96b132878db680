#include "mock_executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const kernels[] = {"add",     "describe", "constants",  "wait",    "narrow",   "hoard",
                                      "glutton", "special",  "page_fault", "invalid", "internal", "out_of_memory",
                                      "silent",  "own"};
enum { KERNELS = sizeof kernels / sizeof *kernels, MAX_CONSTANTS = 8 };

static _Atomic(int) live, executed;

struct soft_library {
  const char *names[KERNELS + 1];
  char *source;
};

struct soft_function {
  const char *name;
  soft_constant constants[MAX_CONSTANTS];
  char constant_names[MAX_CONSTANTS][32];
  size_t constant_count;
};

static char *say(const char *text) {
  atomic_fetch_add(&live, 1);
  return strdup(text);
}

static void string_release(char *string) {
  atomic_fetch_sub(&live, 1);
  free(string);
}

static soft_library *library_create(const char *source, size_t length, char **error) {
  soft_library *library = calloc(1, sizeof *library);
  library->source = strndup(source, length);
  if (strstr(library->source, "error")) {
    char text[256];
    snprintf(text, sizeof text, "program_source:1:1: error: \"%.200s\"", library->source);
    *error = say(text);
    free(library->source);
    free(library);
    return NULL;
  }
  size_t found = 0;
  for (size_t i = 0; i < KERNELS; i++) {
    if (strstr(library->source, kernels[i])) library->names[found++] = kernels[i];
  }
  atomic_fetch_add(&live, 1);
  return library;
}

static void library_release(soft_library *library) {
  atomic_fetch_sub(&live, 1);
  free(library->source);
  free(library);
}

static const char *library_function_name(const soft_library *library, size_t index) {
  return index < KERNELS ? library->names[index] : NULL;
}

static soft_function *function_create(soft_library *library, const char *name, const soft_constant *constants,
                                      size_t constant_count, char **error) {
  const char *known = NULL;
  for (size_t i = 0; library->names[i]; i++) {
    if (strcmp(library->names[i], name) == 0) known = library->names[i];
  }
  if (!known) {
    *error = say("no such kernel");
    return NULL;
  }
  if (strcmp(name, "special") == 0 && constant_count == 0) {
    *error = say("constant 0 has no value");
    return NULL;
  }
  soft_function *function = calloc(1, sizeof *function);
  function->name = known;
  function->constant_count = constant_count < MAX_CONSTANTS ? constant_count : MAX_CONSTANTS;
  for (size_t i = 0; i < function->constant_count; i++) {
    function->constants[i] = constants[i];
    if (!constants[i].name) continue;
    snprintf(function->constant_names[i], sizeof *function->constant_names, "%s", constants[i].name);
    function->constants[i].name = function->constant_names[i];
  }
  atomic_fetch_add(&live, 1);
  return function;
}

static void function_release(soft_function *function) {
  atomic_fetch_sub(&live, 1);
  free(function);
}

static void function_describe(const soft_function *function, soft_function_info *info) {
  *info =
      (soft_function_info){.max_total_threads_per_threadgroup = 1024, .thread_execution_width = 32, .any_thread = true};
  if (strcmp(function->name, "own") == 0) info->any_thread = false;
  if (strcmp(function->name, "narrow") == 0) info->max_total_threads_per_threadgroup = 64;
  if (strcmp(function->name, "hoard") == 0) info->static_threadgroup_memory = 16384;
  if (strcmp(function->name, "glutton") == 0) info->static_threadgroup_memory = 32768 + 16;
}

/* ------------------------------------------------------------------------------------------------------ the gate -- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_closed;
static int gate_arrived;

void mock_gate_close(void) {
  pthread_mutex_lock(&gate);
  gate_closed = true;
  gate_arrived = 0;
  pthread_mutex_unlock(&gate);
}

void mock_gate_open(void) {
  pthread_mutex_lock(&gate);
  gate_closed = false;
  pthread_cond_broadcast(&gate_changed);
  pthread_mutex_unlock(&gate);
}

bool mock_gate_await(int count) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 10;
  pthread_mutex_lock(&gate);
  int result = 0;
  while (gate_arrived < count && result == 0) result = pthread_cond_timedwait(&gate_changed, &gate, &limit);
  pthread_mutex_unlock(&gate);
  return result == 0;
}

static void pass_gate(void) {
  pthread_mutex_lock(&gate);
  gate_arrived++;
  pthread_cond_broadcast(&gate_changed);
  while (gate_closed) pthread_cond_wait(&gate_changed, &gate);
  pthread_mutex_unlock(&gate);
}

/* ----------------------------------------------------------------------------------------------------- execution -- */

static soft_outcome add(const soft_dispatch *dispatch, char **error) {
  for (int i = 0; i < 4; i++) {
    if (dispatch->bindings[i].pointer) continue;
    char text[64];
    snprintf(text, sizeof text, "nothing is bound at buffer(%d)", i);
    *error = say(text);
    return SOFT_INVALID;
  }
  uint32_t count;
  memcpy(&count, dispatch->bindings[3].pointer, sizeof count);
  for (int i = 0; i < 3; i++) {
    if (dispatch->bindings[i].length >= count * sizeof(float)) continue;
    *error = say("an operand ends too early");
    return SOFT_PAGE_FAULT;
  }
  const float *a = dispatch->bindings[0].pointer, *b = dispatch->bindings[1].pointer;
  float *out = dispatch->bindings[2].pointer;
  for (uint32_t i = 0; i < count; i++) out[i] = a[i] + b[i];
  return SOFT_OK;
}

static _Thread_local bool adopted;
static _Atomic(bool) guests = true;

static void adopt_thread(void) { adopted = true; }

static bool takes_guests(void) { return atomic_load(&guests); }

void mock_take_guests(bool taken) { atomic_store(&guests, taken); }

static soft_outcome execute(const soft_function *function, const soft_dispatch *dispatch, char **error) {
  const char *name = function->name;
  atomic_fetch_add(&executed, 1);
  if (!adopted && (!atomic_load(&guests) || strcmp(name, "own") == 0)) {
    *error = say("this thread is not the device's own");
    return SOFT_INTERNAL;
  }
  if (strcmp(name, "add") == 0) return add(dispatch, error);
  if (strcmp(name, "wait") == 0) pass_gate();
  if (strcmp(name, "describe") == 0) memcpy(dispatch->bindings[0].pointer, dispatch, sizeof *dispatch);
  if (strcmp(name, "constants") == 0) {
    memcpy(dispatch->bindings[0].pointer, function->constants, sizeof function->constants);
  }
  if (strcmp(name, "silent") == 0) return SOFT_INTERNAL;
  static const char *const failures[] = {"", "page_fault", "invalid", "internal", "out_of_memory"};
  for (int outcome = SOFT_PAGE_FAULT; outcome <= SOFT_OUT_OF_MEMORY; outcome++) {
    if (strcmp(name, failures[outcome])) continue;
    *error = say("on purpose");
    return (soft_outcome)outcome;
  }
  return SOFT_OK;
}

int mock_executed(void) { return atomic_load(&executed); }

int mock_live(void) { return atomic_load(&live); }

static uint32_t threads(void) { return 1; }

static soft_outcome set_threads(uint32_t wanted, char **error) {
  if (wanted == 1) return SOFT_OK;
  *error = say("there is one thread");
  return SOFT_INVALID;
}

static soft_outcome pin_threads(const uint32_t *processors, size_t count, char **error) {
  (void)processors;
  if (!count) return SOFT_OK;
  *error = say("it runs anywhere");
  return SOFT_UNSUPPORTED;
}

/* Now and then none, so that threads meet both asleep and awake. */
static uint64_t patience(void) {
  static atomic_uint asked;
  return atomic_fetch_add(&asked, 1) % 2 ? 0 : 100000;
}

static bool compiles_source(void) {
  return true;
}

const soft_executor *softmetal_cpu_executor(void) {
  static const soft_executor table = {
      .name = "mock",
      .compiles_source = compiles_source,
      .library_create = library_create,
      .library_release = library_release,
      .library_function_name = library_function_name,
      .function_create = function_create,
      .function_release = function_release,
      .function_describe = function_describe,
      .execute = execute,
      .adopt_thread = adopt_thread,
      .takes_guests = takes_guests,
      .threads = threads,
      .set_threads = set_threads,
      .pin_threads = pin_threads,
      .patience = patience,
      .string_release = string_release,
  };
  return &table;
}
