/* The mock backend with real kernels: those of the CPU backend, one dispatch at a time, over the mock's own memory. */
#include "mock_backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef soft_outcome (*open_function)(const char *which, soft_backend **backend, const soft_backend_table **table,
                                      char **text);

static _Atomic(open_function) host;

typedef struct cpu {
  soft_backend *backend;
  const soft_backend_table *table;
  soft_stream *stream;
  pthread_mutex_t submitting; /* one thread at a time */
} cpu;

static soft_outcome open_kernels(void **context, char **text) {
  cpu *opened = calloc(1, sizeof *opened);
  if (!opened) return SOFT_OUT_OF_MEMORY;
  pthread_mutex_init(&opened->submitting, NULL);
  soft_outcome outcome = host("cpu", &opened->backend, &opened->table, text);
  if (outcome == SOFT_OK) outcome = opened->table->stream_create(opened->backend, &opened->stream, text);
  *context = opened;
  return outcome;
}

static void close_kernels(void *context) {
  cpu *opened = context;
  opened->table->stream_release(opened->stream);
  opened->table->release(opened->backend);
  pthread_mutex_destroy(&opened->submitting);
  free(opened);
}

static soft_outcome module_create(void *context, const char *source, size_t length, soft_module **module, char **text) {
  const cpu *opened = context;
  return opened->table->module_create(opened->backend, source, length, module, text);
}

static void module_release(void *context, soft_module *module) { ((cpu *)context)->table->module_release(module); }

static const char *module_function_name(void *context, const soft_module *module, size_t index) {
  return ((cpu *)context)->table->module_function_name(module, index);
}

static soft_outcome function_create(void *context, soft_module *module, const char *name,
                                    const soft_constant *constants, size_t constant_count, soft_function **function,
                                    char **text) {
  return ((cpu *)context)->table->function_create(module, name, constants, constant_count, function, text);
}

static void function_release(void *context, soft_function *function) {
  ((cpu *)context)->table->function_release(function);
}

static void function_describe(void *context, const soft_function *function, soft_function_info *info) {
  ((cpu *)context)->table->function_describe(function, info);
}

static uint32_t function_parameters(void *context, const soft_function *function, soft_parameter *parameters) {
  return ((cpu *)context)->table->function_parameters(function, parameters);
}

static soft_outcome attach(void *context, void *pages, uint64_t length, void **attached) {
  const cpu *opened = context;
  return opened->table->buffer_import(opened->backend, pages, length, false, (soft_buffer **)attached, NULL);
}

static void detach(void *context, void *attached) { ((cpu *)context)->table->buffer_release(attached); }

typedef struct run {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool over;
  soft_outcome outcome;
  char *text;
} run;

static void complete(void *context, const soft_result *result) {
  run *running = context;
  pthread_mutex_lock(&running->lock);
  running->outcome = result->outcome;
  running->text = result->text ? strdup(result->text) : NULL;
  running->over = true;
  pthread_cond_signal(&running->ended);
  pthread_mutex_unlock(&running->lock);
}

static soft_outcome execute(void *context, const mock_launch *launch, bool own, char **text) {
  (void)own;
  cpu *opened = context;
  soft_binding bindings[SOFT_MAX_BINDINGS];
  for (uint32_t i = 0; i < launch->dispatch->binding_count; i++) {
    const mock_binding *given = &launch->bindings[i];
    bindings[i] = (soft_binding){.buffer = given->attached,
                                 .bytes = given->attached ? NULL : given->pointer,
                                 .offset = given->attached ? given->offset : 0,
                                 .length = given->length};
  }
  soft_texture textures[SOFT_MAX_TEXTURES];
  for (uint32_t i = 0; i < launch->dispatch->texture_count; i++) {
    textures[i] = launch->dispatch->textures[i];
    textures[i].buffer = launch->textures[i].attached;
  }
  soft_chunk chunk = {.count = 1};
  chunk.commands[0].kind = SOFT_DISPATCH;
  chunk.commands[0].dispatch = *launch->dispatch;
  chunk.commands[0].dispatch.bindings = bindings;
  chunk.commands[0].dispatch.textures = textures;
  run running = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
  soft_submission submission = {.commands = &chunk, .context = &running, .complete = complete};
  pthread_mutex_lock(&opened->submitting);
  uint64_t ticket = opened->table->stream_submit(opened->stream, &submission, SOFT_WILL_HELP);
  pthread_mutex_unlock(&opened->submitting);
  opened->table->stream_help(opened->stream, ticket);
  pthread_mutex_lock(&running.lock);
  while (!running.over) pthread_cond_wait(&running.ended, &running.lock);
  pthread_mutex_unlock(&running.lock);
  *text = running.text;
  return running.outcome;
}

/* What src/backend/external.rs calls. */
soft_outcome soft_external_open(const char *which, soft_backend **backend, const soft_backend_table **table,
                                char **text, open_function hosts) {
  static const mock_kernels kernels = {
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
      .attach = attach,
      .detach = detach,
      .execute = execute,
  };
  host = hosts;
  return mock_backend_open(&kernels, which, backend, table, text);
}
