#include "mock_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const kernels[] = {"add",           "describe",       "constants", "wait",        "narrow",
                                      "hoard",         "glutton",        "special",   "page_fault",  "invalid",
                                      "internal",      "out_of_memory",  "timeout",   "unsupported", "device_lost",
                                      "stack_overflow", "silent",         "own",       "tint",
                                      "share"};
enum { KERNELS = sizeof kernels / sizeof *kernels, MAX_CONSTANTS = 8, MOCK_TEXTURE_2D = 2 };

static _Atomic(int) live, executed;

typedef struct module {
  const char *names[KERNELS + 1];
  char *source;
} module;

typedef struct function {
  const char *name;
  soft_constant constants[MAX_CONSTANTS];
  char constant_names[MAX_CONSTANTS][32];
  size_t constant_count;
} function;

static char *say(const char *text) { return strdup(text); }

static soft_outcome open_kernels(void **context, char **text) {
  (void)text;
  *context = NULL;
  return SOFT_OK;
}

static void close_kernels(void *context) { (void)context; }

static soft_outcome module_create(void *context, const char *source, size_t length, soft_module **result, char **text) {
  (void)context;
  module *made = calloc(1, sizeof *made);
  made->source = strndup(source, length);
  if (strstr(made->source, "error")) {
    char said[256];
    snprintf(said, sizeof said, "program_source:1:1: error: \"%.200s\"", made->source);
    *text = say(said);
    free(made->source);
    free(made);
    return SOFT_INVALID;
  }
  size_t found = 0;
  for (size_t i = 0; i < KERNELS; i++) {
    if (strstr(made->source, kernels[i])) made->names[found++] = kernels[i];
  }
  atomic_fetch_add(&live, 1);
  *result = (soft_module *)made;
  return SOFT_OK;
}

static void module_release(void *context, soft_module *handle) {
  (void)context;
  module *released = (module *)handle;
  atomic_fetch_sub(&live, 1);
  free(released->source);
  free(released);
}

static const char *module_function_name(void *context, const soft_module *handle, size_t index) {
  (void)context;
  return index < KERNELS ? ((const module *)handle)->names[index] : NULL;
}

static soft_outcome function_create(void *context, soft_module *handle, const char *name,
                                    const soft_constant *constants, size_t constant_count, soft_function **result,
                                    char **text) {
  (void)context;
  const module *of = (const module *)handle;
  const char *known = NULL;
  for (size_t i = 0; of->names[i]; i++) {
    if (strcmp(of->names[i], name) == 0) known = of->names[i];
  }
  if (!known) {
    *text = say("no such kernel");
    return SOFT_INVALID;
  }
  if (strcmp(name, "special") == 0 && constant_count == 0) {
    *text = say("constant 0 has no value");
    return SOFT_INVALID;
  }
  function *made = calloc(1, sizeof *made);
  made->name = known;
  made->constant_count = constant_count < MAX_CONSTANTS ? constant_count : MAX_CONSTANTS;
  for (size_t i = 0; i < made->constant_count; i++) {
    made->constants[i] = constants[i];
    if (!constants[i].name) continue;
    snprintf(made->constant_names[i], sizeof *made->constant_names, "%s", constants[i].name);
    made->constants[i].name = made->constant_names[i];
  }
  atomic_fetch_add(&live, 1);
  *result = (soft_function *)made;
  return SOFT_OK;
}

static void function_release(void *context, soft_function *released) {
  (void)context;
  atomic_fetch_sub(&live, 1);
  free(released);
}

static void function_describe(void *context, const soft_function *handle, soft_function_info *info) {
  (void)context;
  const char *name = ((const function *)handle)->name;
  *info = (soft_function_info){.max_total_threads_per_threadgroup = 1024, .thread_execution_width = 32};
  if (strcmp(name, "narrow") == 0) info->max_total_threads_per_threadgroup = 64;
  if (strcmp(name, "hoard") == 0) info->static_threadgroup_memory = 16384;
  if (strcmp(name, "glutton") == 0) info->static_threadgroup_memory = 32768 + 16;
}

static bool runs_on_any_thread(void *context, const soft_function *handle) {
  (void)context;
  return strcmp(((const function *)handle)->name, "own") != 0;
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

static soft_outcome add(const mock_launch *launch, char **text) {
  for (int i = 0; i < 4; i++) {
    if (launch->bindings[i].pointer) continue;
    char said[64];
    snprintf(said, sizeof said, "kernel 'add': nothing is bound at buffer(%d)", i);
    *text = say(said);
    return SOFT_INVALID;
  }
  uint32_t count;
  memcpy(&count, launch->bindings[3].pointer, sizeof count);
  for (int i = 0; i < 3; i++) {
    if (launch->bindings[i].length >= count * sizeof(float)) continue;
    *text = say("kernel 'add': an operand ends too early");
    return SOFT_PAGE_FAULT;
  }
  const float *a = launch->bindings[0].pointer, *b = launch->bindings[1].pointer;
  float *out = launch->bindings[2].pointer;
  for (uint32_t i = 0; i < count; i++) out[i] = a[i] + b[i];
  return SOFT_OK;
}

static void describe(const mock_launch *launch) {
  const soft_dispatch *dispatch = launch->dispatch;
  described_dispatch seen = {.binding_count = dispatch->binding_count,
                             .threadgroup_memory_count = dispatch->threadgroup_memory_count,
                             .threads = dispatch->threads};
  for (int i = 0; i < SOFT_MAX_BINDINGS; i++) {
    seen.pointers[i] = launch->bindings[i].pointer;
    seen.lengths[i] = launch->bindings[i].length;
  }
  for (uint32_t i = 0; i < dispatch->threadgroup_memory_count; i++)
    seen.threadgroup_memory[i] = dispatch->threadgroup_memory[i];
  memcpy(seen.grid, dispatch->grid, sizeof seen.grid);
  memcpy(seen.threadgroup, dispatch->threadgroup, sizeof seen.threadgroup);
  memcpy(launch->bindings[0].pointer, &seen, sizeof seen);
}

/* Every byte of every texel of the first level. */
static soft_outcome tint(const mock_launch *launch, char **text) {
  if (launch->dispatch->texture_count < 1 || !launch->textures[0].pointer) {
    *text = say("kernel 'tint': nothing is bound to texture index 0");
    return SOFT_INVALID;
  }
  const soft_texture *texture = launch->dispatch->textures;
  const soft_sampler *sampler = launch->dispatch->sampler_count ? launch->dispatch->samplers : NULL;
  uint8_t by = sampler && sampler->bound ? (uint8_t)(1 + sampler->address[0]) : 1;
  uint64_t bytes = (uint64_t)texture->width * texture->component_bytes * texture->components;
  for (uint32_t slice = 0; slice < texture->depth * texture->array_length; slice++) {
    for (uint32_t y = 0; y < texture->height; y++) {
      uint8_t *row = (uint8_t *)launch->textures[0].pointer + slice * texture->slice_bytes + y * texture->row_bytes;
      for (uint64_t x = 0; x < bytes; x++) row[x] += by;
    }
  }
  return SOFT_OK;
}

static soft_outcome execute(void *context, const mock_launch *launch, bool own, char **text) {
  (void)context;
  static const struct {
    const char *name;
    soft_outcome outcome;
  } failures[] = {
      {"page_fault", SOFT_PAGE_FAULT},         {"invalid", SOFT_INVALID},         {"internal", SOFT_INTERNAL},
      {"out_of_memory", SOFT_OUT_OF_MEMORY},   {"timeout", SOFT_TIMEOUT},         {"unsupported", SOFT_UNSUPPORTED},
      {"stack_overflow", SOFT_STACK_OVERFLOW}, {"device_lost", SOFT_DEVICE_LOST},
  };
  const function *run = (const function *)launch->dispatch->function;
  const char *name = run->name;
  atomic_fetch_add(&executed, 1);
  if (!own && strcmp(name, "own") == 0) {
    *text = say("this thread is not the stream's own");
    return SOFT_INTERNAL;
  }
  if (strcmp(name, "add") == 0) return add(launch, text);
  if (strcmp(name, "tint") == 0) return tint(launch, text);
  if (strcmp(name, "wait") == 0) pass_gate();
  if (strcmp(name, "describe") == 0) describe(launch);
  if (strcmp(name, "constants") == 0) memcpy(launch->bindings[0].pointer, run->constants, sizeof run->constants);
  if (strcmp(name, "silent") == 0) return SOFT_INTERNAL;
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
    if (strcmp(name, failures[i].name)) continue;
    char said[64];
    snprintf(said, sizeof said, "kernel '%s': on purpose", name);
    *text = say(said);
    return failures[i].outcome;
  }
  return SOFT_OK;
}

/* `add` wants three buffers and a count, of 4 bytes and aligned to them, `tint` a texture that it reads and writes, and
 * `share` threadgroup memory. No other says. */
static uint32_t function_parameters(void *context, const soft_function *handle, soft_parameter *parameters) {
  (void)context;
  if (strcmp(((const function *)handle)->name, "tint") == 0) {
    parameters[0] = (soft_parameter){.kind = SOFT_PARAMETER_TEXTURE,
                                     .readable = true,
                                     .writable = true,
                                     .texture_type = MOCK_TEXTURE_2D,
                                     .value = SOFT_VALUE_UINT};
    return 1;
  }
  if (strcmp(((const function *)handle)->name, "share") == 0) {
    parameters[0] = (soft_parameter){.kind = SOFT_PARAMETER_THREADGROUP};
    return 1;
  }
  if (strcmp(((const function *)handle)->name, "add") != 0) return SOFT_UNKNOWN;
  for (uint32_t index = 0; index < 4; index++)
    parameters[index] = (soft_parameter){.index = index, .size = 4, .alignment = 4};
  return 4;
}

int mock_executed(void) { return atomic_load(&executed); }

int mock_live(void) { return atomic_load(&live) + mock_backend_live(); }

uint32_t soft_backend_count(const char *name) { return strncmp(name, "mock", 4) == 0; }

/* Backends in the environment's mode: the whole test program runs once in each. */
soft_outcome soft_backend_open(const char *which, soft_backend **backend, const soft_backend_table **functions,
                               char **text) {
  static const mock_kernels all = {
      .name = "mock",
      .open = open_kernels,
      .close = close_kernels,
      .module_create = module_create,
      .module_release = module_release,
      .module_function_name = module_function_name,
      .function_create = function_create,
      .function_release = function_release,
      .function_describe = function_describe,
      .function_parameters = function_parameters,
      .runs_on_any_thread = runs_on_any_thread,
      .execute = execute,
  };
  if (strncmp(which, "mock", 4) != 0) {
    *text = say("there is no such backend");
    return SOFT_UNSUPPORTED;
  }
  const char *mode = getenv("MOCK_MODE");
  char whole[256];
  snprintf(whole, sizeof whole, "%s%s%s", which, mode && !strchr(which, ':') ? ":" : mode ? "," : "", mode ? mode : "");
  return mock_backend_open(&all, whole, backend, functions, text);
}
