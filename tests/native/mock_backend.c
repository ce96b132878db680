#include "mock_backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic(int) live;

int mock_backend_live(void) { return atomic_load(&live); }

struct soft_backend {
  _Atomic(int) references; /* what is made of it has one each */
  const mock_kernels *kernels;
  void *context;
  uint64_t asynchronous, fail, lose; /* 0: not */
  _Atomic(uint64_t) submissions;
};

struct soft_module {
  soft_backend *backend;
  soft_module *inner;
};

struct soft_function {
  soft_backend *backend;
  soft_function *inner;
};

struct soft_buffer {
  soft_backend *backend;
  unsigned char *memory; /* the device's */
  uint64_t length, address;
  soft_storage storage;
  bool imported;
  void *attached;
};

static char *say(const char *text) { return text ? strdup(text) : NULL; }

static soft_outcome refuse(soft_outcome outcome, char **text, const char *said) {
  if (text) *text = say(said);
  return outcome;
}

static soft_backend *keep(soft_backend *backend) {
  atomic_fetch_add(&backend->references, 1);
  atomic_fetch_add(&live, 1);
  return backend;
}

static void let_go(soft_backend *backend) {
  atomic_fetch_sub(&live, 1);
  if (atomic_fetch_sub(&backend->references, 1) > 1) return;
  backend->kernels->close(backend->context);
  free(backend);
}

/* splitmix64: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t draw(uint64_t seed, uint64_t number) {
  uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* --------------------------------------------------------------------------------------------------- the device -- */

static void capabilities(soft_backend *backend, soft_capabilities *result) {
  uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  soft_capabilities full = {
      .size = result->size,
      .name = backend->kernels->name,
      .memory = memory,
      .working_set = memory / 4 * 3,
      .max_buffer_length = memory / 2,
      .page_size = (uint64_t)sysconf(_SC_PAGESIZE),
      .max_threads_per_threadgroup = 1024,
      .max_threadgroup_memory = 32768,
      .simd_width = 32,
      .flags = SOFT_IMPORTS | SOFT_TEXTURES | SOFT_INDIRECT,
  };
  memcpy(result, &full, result->size < sizeof full ? result->size : sizeof full);
}

static char *report(soft_backend *backend) {
  char text[128];
  snprintf(text, sizeof text, "processor: %s\n", backend->kernels->name);
  return say(text);
}

/* Now and then none, so that threads meet both asleep and awake. */
static uint64_t wait_budget(soft_backend *backend) {
  (void)backend;
  static atomic_uint asked;
  return atomic_fetch_add(&asked, 1) % 2 ? 0 : 100000;
}

/* -------------------------------------------------------------------------------------------------------- memory -- */

static uint64_t rounded(uint64_t length) {
  uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
  return (length + mask) & ~mask;
}

/* The memory is not the buffer's yet. */
static soft_outcome make_buffer(soft_backend *backend, unsigned char *memory, uint64_t length, soft_storage storage,
                                bool imported, soft_buffer **result, char **text) {
  static _Atomic(uint64_t) buffers;
  soft_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory for a buffer");
  const mock_kernels *kernels = backend->kernels;
  if (kernels->attach && kernels->attach(backend->context, memory, rounded(length), &buffer->attached) != SOFT_OK) {
    free(buffer);
    return refuse(SOFT_OUT_OF_MEMORY, text, "the kernels cannot reach the memory");
  }
  buffer->backend = keep(backend);
  buffer->memory = memory;
  buffer->length = length;
  buffer->storage = storage;
  buffer->imported = imported;
  buffer->address = (UINT64_C(0xdeb) << 52) + (atomic_fetch_add(&buffers, 1) << 34);
  *result = buffer;
  return SOFT_OK;
}

static bool is_lost(soft_backend *backend) {
  return backend->lose && atomic_load(&backend->submissions) >= backend->lose;
}

static soft_outcome buffer_create(soft_backend *backend, uint64_t length, soft_storage storage, soft_buffer **buffer,
                                  char **text) {
  if (is_lost(backend)) return refuse(SOFT_DEVICE_LOST, text, "the device fell off the bus");
  const int flags = MAP_PRIVATE | MAP_ANON;
  void *memory = length > SIZE_MAX / 2 ? MAP_FAILED : mmap(NULL, rounded(length), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory");
  soft_outcome outcome = make_buffer(backend, memory, length, storage, false, buffer, text);
  if (outcome != SOFT_OK) munmap(memory, rounded(length));
  return outcome;
}

static soft_outcome buffer_import(soft_backend *backend, void *pages, uint64_t length, bool read_only,
                                  soft_buffer **buffer, char **text) {
  (void)read_only;
  return make_buffer(backend, pages, length, SOFT_SHARED, true, buffer, text);
}

static void buffer_release(soft_buffer *buffer) {
  const mock_kernels *kernels = buffer->backend->kernels;
  if (kernels->attach) kernels->detach(buffer->backend->context, buffer->attached);
  if (!buffer->imported) munmap(buffer->memory, rounded(buffer->length));
  let_go(buffer->backend);
  free(buffer);
}

static uint64_t buffer_address(soft_buffer *buffer) { return buffer->address; }

static void *buffer_contents(soft_buffer *buffer) { return buffer->storage == SOFT_SHARED ? buffer->memory : NULL; }

static void buffer_expect_reads(soft_buffer *buffer) { (void)buffer; }

static soft_outcome buffer_discard(soft_buffer *buffer, char **text) {
  if (buffer->imported) return refuse(SOFT_UNSUPPORTED, text, "the memory is the caller's");
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_FIXED;
  if (mmap(buffer->memory, rounded(buffer->length), PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) abort();
  return SOFT_OK;
}

/* Where rows of a matrix lie, whose bytes are known from how many the caller gives; NULL: not in the buffer. */
static unsigned char *rows_of(soft_buffer *buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                              uint64_t length) {
  if (buffer->storage != SOFT_WEIGHTS || count == 0 || length % count || first + count > matrix->rows) return NULL;
  uint64_t start = matrix->offset + first * (length / count);
  return start + length <= buffer->length ? buffer->memory + start : NULL;
}

/* In the plain layout, as the kernels want them. Strict: a matrix is written as backend.h says. */
static soft_outcome weights_write(soft_buffer *buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                  const void *rows, uint64_t length, char **text) {
  unsigned char *place = rows_of(buffer, matrix, first, count, length);
  if (!place) return refuse(SOFT_INVALID, text, "these rows are not in a buffer of weights");
  if (first % SOFT_WEIGHT_ROWS || (count % SOFT_WEIGHT_ROWS && first + count < matrix->rows))
    return refuse(SOFT_INVALID, text, "rows come in multiples of SOFT_WEIGHT_ROWS");
  memcpy(place, rows, length);
  return SOFT_OK;
}

static soft_outcome weights_read(soft_buffer *buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                 void *rows, uint64_t length, char **text) {
  const unsigned char *place = rows_of(buffer, matrix, first, count, length);
  if (!place) return refuse(SOFT_INVALID, text, "these rows are not in a buffer of weights");
  memcpy(rows, place, length);
  return SOFT_OK;
}

/* ------------------------------------------------------------------------------------------------------- kernels -- */

static soft_outcome module_create(soft_backend *backend, const char *source, size_t length, soft_module **result,
                                  char **text) {
  soft_module *module = calloc(1, sizeof *module);
  if (!module) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory for a module");
  soft_outcome outcome = backend->kernels->module_create(backend->context, source, length, &module->inner, text);
  if (outcome != SOFT_OK) {
    free(module);
    return outcome;
  }
  module->backend = keep(backend);
  *result = module;
  return SOFT_OK;
}

static void module_release(soft_module *module) {
  module->backend->kernels->module_release(module->backend->context, module->inner);
  let_go(module->backend);
  free(module);
}

static const char *module_function_name(const soft_module *module, size_t index) {
  return module->backend->kernels->module_function_name(module->backend->context, module->inner, index);
}

static soft_outcome function_create(soft_module *module, const char *name, const soft_constant *constants,
                                    size_t constant_count, soft_function **result, char **text) {
  soft_function *function = calloc(1, sizeof *function);
  if (!function) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory for a function");
  soft_backend *backend = module->backend;
  soft_outcome outcome = backend->kernels->function_create(backend->context, module->inner, name, constants,
                                                           constant_count, &function->inner, text);
  if (outcome != SOFT_OK) {
    free(function);
    return outcome;
  }
  function->backend = keep(backend);
  *result = function;
  return SOFT_OK;
}

static void function_release(soft_function *function) {
  function->backend->kernels->function_release(function->backend->context, function->inner);
  let_go(function->backend);
  free(function);
}

static void function_describe(const soft_function *function, soft_function_info *info) {
  function->backend->kernels->function_describe(function->backend->context, function->inner, info);
}

static uint32_t function_parameters(const soft_function *function, soft_parameter *parameters) {
  const mock_kernels *kernels = function->backend->kernels;
  if (!kernels->function_parameters) return SOFT_UNKNOWN;
  return kernels->function_parameters(function->backend->context, function->inner, parameters);
}

static mock_binding bound(const soft_binding *binding) {
  const soft_buffer *buffer = binding->buffer;
  if (!buffer) return (mock_binding){.pointer = (void *)binding->bytes, .length = binding->length};
  return (mock_binding){.pointer = buffer->memory + binding->offset,
                        .length = binding->length,
                        .attached = buffer->attached,
                        .offset = binding->offset};
}

static soft_outcome execute(const soft_command *command, bool own, char **text) {
  switch (command->kind) {
  case SOFT_COPY:
    memcpy(command->copy.destination->memory + command->copy.destination_offset,
           command->copy.source->memory + command->copy.source_offset, command->copy.length);
    return SOFT_OK;
  case SOFT_FILL:
    memset(command->fill.destination->memory + command->fill.offset, command->fill.value, command->fill.length);
    return SOFT_OK;
  case SOFT_DISPATCH: break;
  }
  const soft_function *function = command->dispatch.function;
  soft_dispatch dispatch = command->dispatch;
  dispatch.function = function->inner;
  if (dispatch.indirect) {
    const soft_binding grid = {dispatch.indirect, NULL, dispatch.indirect_offset, sizeof dispatch.grid};
    memcpy(dispatch.grid, bound(&grid).pointer, sizeof dispatch.grid);
    if (!dispatch.grid[0] || !dispatch.grid[1] || !dispatch.grid[2]) return SOFT_OK;
  }
  mock_launch launch = {.dispatch = &dispatch};
  for (uint32_t i = 0; i < dispatch.binding_count; i++) launch.bindings[i] = bound(&dispatch.bindings[i]);
  for (uint32_t i = 0; i < dispatch.texture_count; i++) {
    const soft_texture *texture = &dispatch.textures[i];
    if (!texture->buffer) continue;
    launch.textures[i] = bound(&(soft_binding){texture->buffer, NULL, texture->offset, texture->length});
  }
  return function->backend->kernels->execute(function->backend->context, &launch, own, text);
}

/* ------------------------------------------------------------------------------------------------------- streams -- */

typedef struct place {
  struct place *next;
  soft_submission submission;
  uint64_t ticket;
  soft_result result;
  char *text;
} place;

typedef struct line {
  place *first, *last;
} line;

struct soft_stream {
  _Atomic(int) references; /* the handle, its threads, and who helps */
  soft_backend *backend;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  line pending, executed;
  uint64_t ticket;
  bool executing, completing, closing;
  pthread_t executor, completer; /* who does so now */
  pthread_t threads[2];
  int thread_count;
};

static void add(line *line, place *added) {
  added->next = NULL;
  *(line->last ? &line->last->next : &line->first) = added;
  line->last = added;
}

static place *take(line *line) {
  place *taken = line->first;
  line->first = taken->next;
  if (!line->first) line->last = NULL;
  return taken;
}

static void stream_let_go(soft_stream *stream) {
  if (atomic_fetch_sub(&stream->references, 1) > 1) return;
  pthread_mutex_destroy(&stream->lock);
  pthread_cond_destroy(&stream->changed);
  let_go(stream->backend);
  free(stream);
}

/* Executes up to `limit` commands. */
static soft_outcome run_commands(const soft_chunk *chunk, uint64_t limit, bool own, char **text) {
  for (; chunk; chunk = chunk->next) {
    for (size_t i = 0; i < chunk->count; i++) {
      if (limit-- == 0) return SOFT_OK;
      soft_outcome outcome = execute(&chunk->commands[i], own, text);
      if (outcome != SOFT_OK) return outcome;
    }
  }
  return SOFT_OK;
}

static uint64_t count_commands(const soft_chunk *chunk) {
  uint64_t count = 0;
  for (; chunk; chunk = chunk->next) count += chunk->count;
  return count;
}

static soft_outcome begin_and_run(soft_backend *backend, place *next, bool own) {
  static const soft_outcome failures[] = {SOFT_PAGE_FAULT, SOFT_TIMEOUT, SOFT_OUT_OF_MEMORY, SOFT_INTERNAL};
  const soft_submission *submission = &next->submission;
  uint64_t number = atomic_fetch_add(&backend->submissions, 1) + 1;
  if (submission->begin && !submission->begin(submission->context)) return SOFT_CANCELED;
  next->result.start = now();
  if (backend->lose && number >= backend->lose) {
    next->text = say("the device fell off the bus");
    return SOFT_DEVICE_LOST;
  }
  uint64_t chance = draw(backend->fail, number), count = count_commands(submission->commands);
  bool fails = backend->fail && count && chance % 4 == 0;
  soft_outcome outcome = run_commands(submission->commands, fails ? chance / 4 % count : UINT64_MAX, own, &next->text);
  if (!fails || outcome != SOFT_OK) return outcome;
  next->text = say("planted in the middle of a list");
  return failures[chance / 1024 % (sizeof failures / sizeof *failures)];
}

static void run(soft_backend *backend, place *next, bool own) {
  next->result.outcome = begin_and_run(backend, next, own);
  next->result.end = now();
  next->result.text = next->text;
}

static void complete(place *done) {
  done->submission.complete(done->submission.context, &done->result);
  free(done->text);
  free(done);
}

static bool any_thread(soft_backend *backend, const soft_chunk *chunk) {
  if (!backend->kernels->runs_on_any_thread) return true;
  for (; chunk; chunk = chunk->next) {
    for (size_t i = 0; i < chunk->count; i++) {
      const soft_command *command = &chunk->commands[i];
      if (command->kind != SOFT_DISPATCH) continue;
      if (!backend->kernels->runs_on_any_thread(backend->context, command->dispatch.function->inner)) return false;
    }
  }
  return true;
}

/* Executes the first one pending, which nobody else does now. Enters and leaves with the lock held. */
static void execute_first(soft_stream *stream, bool own) {
  place *next = take(&stream->pending);
  stream->executing = true;
  stream->executor = pthread_self();
  pthread_mutex_unlock(&stream->lock);
  run(stream->backend, next, own);
  if (!stream->backend->asynchronous) complete(next);
  pthread_mutex_lock(&stream->lock);
  stream->executing = false;
  if (stream->backend->asynchronous) add(&stream->executed, next);
  pthread_cond_broadcast(&stream->changed);
}

static void *execute_all(void *argument) {
  soft_stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    if (stream->pending.first && !stream->executing) execute_first(stream, true);
    else if (stream->closing && !stream->pending.first) break;
    else pthread_cond_wait(&stream->changed, &stream->lock);
  }
  pthread_mutex_unlock(&stream->lock);
  stream_let_go(stream);
  return NULL;
}

static void *complete_all(void *argument) {
  soft_stream *stream = argument;
  uint64_t number = 0;
  pthread_mutex_lock(&stream->lock);
  stream->completer = pthread_self();
  for (;;) {
    if (stream->executed.first) {
      place *done = take(&stream->executed);
      stream->completing = true;
      pthread_mutex_unlock(&stream->lock);
      uint64_t chance = draw(stream->backend->asynchronous, number++);
      if (chance % 3 == 0) usleep((useconds_t)(chance / 3 % 300));
      complete(done);
      pthread_mutex_lock(&stream->lock);
      stream->completing = false;
      pthread_cond_broadcast(&stream->changed);
    } else if (stream->closing && !stream->pending.first && !stream->executing) {
      break;
    } else {
      pthread_cond_wait(&stream->changed, &stream->lock);
    }
  }
  pthread_mutex_unlock(&stream->lock);
  stream_let_go(stream);
  return NULL;
}

static void stream_release(soft_stream *stream);

static soft_outcome stream_create(soft_backend *backend, soft_stream **result, char **text) {
  soft_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory for a stream");
  stream->references = 1;
  stream->backend = keep(backend);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  void *(*const bodies[])(void *) = {execute_all, complete_all};
  for (int i = 0; i < (backend->asynchronous ? 2 : 1); i++) {
    atomic_fetch_add(&stream->references, 1);
    if (pthread_create(&stream->threads[i], NULL, bodies[i], stream) != 0) {
      atomic_fetch_sub(&stream->references, 1);
      stream_release(stream);
      return refuse(SOFT_OUT_OF_MEMORY, text, "no thread for a stream");
    }
    stream->thread_count++;
  }
  *result = stream;
  return SOFT_OK;
}

static void stream_release(soft_stream *stream) {
  pthread_t self = pthread_self();
  pthread_mutex_lock(&stream->lock);
  bool inside = (stream->executing && pthread_equal(stream->executor, self)) ||
                (stream->completing && pthread_equal(stream->completer, self));
  stream->closing = true;
  pthread_cond_broadcast(&stream->changed);
  while (!inside && (stream->pending.first || stream->executed.first || stream->executing || stream->completing)) {
    pthread_cond_wait(&stream->changed, &stream->lock);
  }
  pthread_mutex_unlock(&stream->lock);
  for (int i = 0; i < stream->thread_count; i++) {
    if (inside) pthread_detach(stream->threads[i]);
    else pthread_join(stream->threads[i], NULL);
  }
  stream_let_go(stream);
}

static uint64_t stream_submit(soft_stream *stream, const soft_submission *submission, uint32_t flags) {
  place *added = calloc(1, sizeof *added);
  if (!added) abort(); /* there is no way to say so */
  added->submission = *submission;
  pthread_mutex_lock(&stream->lock);
  uint64_t ticket = added->ticket = ++stream->ticket;
  add(&stream->pending, added);
  if (stream->backend->asynchronous || !(flags & SOFT_WILL_HELP)) pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return ticket;
}

static void stream_start(soft_stream *stream) { (void)stream; }

static void stream_help(soft_stream *stream, uint64_t ticket) {
  if (stream->backend->asynchronous) return;
  atomic_fetch_add(&stream->references, 1);
  pthread_mutex_lock(&stream->lock);
  while (stream->pending.first && !stream->executing && stream->pending.first->ticket <= ticket &&
         any_thread(stream->backend, stream->pending.first->submission.commands)) {
    execute_first(stream, false);
  }
  if (stream->pending.first) pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  stream_let_go(stream);
}

/* --------------------------------------------------------------------------------------------------------- table -- */

static const soft_backend_table table = {
    .size = sizeof table,
    .version = SOFT_BACKEND_VERSION,
    .release = let_go,
    .capabilities = capabilities,
    .report = report,
    .wait_budget = wait_budget,
    .buffer_create = buffer_create,
    .buffer_import = buffer_import,
    .buffer_release = buffer_release,
    .buffer_address = buffer_address,
    .buffer_contents = buffer_contents,
    .buffer_expect_reads = buffer_expect_reads,
    .buffer_discard = buffer_discard,
    .weights_write = weights_write,
    .weights_read = weights_read,
    .module_create = module_create,
    .module_release = module_release,
    .module_function_name = module_function_name,
    .function_create = function_create,
    .function_release = function_release,
    .function_describe = function_describe,
    .function_parameters = function_parameters,
    .stream_create = stream_create,
    .stream_release = stream_release,
    .stream_submit = stream_submit,
    .stream_start = stream_start,
    .stream_help = stream_help,
};

/* The number after "KEY=", or false. */
static bool read_option(const char *option, const char *key, uint64_t *number) {
  size_t length = strlen(key);
  if (strncmp(option, key, length) != 0 || option[length] != '=') return false;
  char *end;
  *number = strtoull(option + length + 1, &end, 10);
  return end != option + length + 1 && *end == 0 && *number > 0;
}

static soft_outcome read_options(soft_backend *backend, const char *which, char **text) {
  const char *colon = strchr(which, ':');
  char *options = strdup(colon ? colon + 1 : ""), *rest = NULL;
  soft_outcome outcome = SOFT_OK;
  for (char *option = strtok_r(options, ",", &rest); option; option = strtok_r(NULL, ",", &rest)) {
    if (read_option(option, "asynchronous", &backend->asynchronous) || read_option(option, "fail", &backend->fail) ||
        read_option(option, "lose", &backend->lose))
      continue;
    char said[128];
    size_t length = strcspn(option, "=");
    if (option[length]) snprintf(said, sizeof said, "there is no key '%.*s'", (int)length, option);
    else snprintf(said, sizeof said, "'%.64s' is not of the form KEY=VALUE", option);
    outcome = refuse(SOFT_INVALID, text, said);
    break;
  }
  free(options);
  return outcome;
}

soft_outcome mock_backend_open(const mock_kernels *kernels, const char *which, soft_backend **result,
                               const soft_backend_table **functions, char **text) {
  soft_backend *backend = calloc(1, sizeof *backend);
  if (!backend) return refuse(SOFT_OUT_OF_MEMORY, text, "no memory for a backend");
  backend->kernels = kernels;
  soft_outcome outcome = read_options(backend, which, text);
  if (outcome == SOFT_OK) outcome = kernels->open(&backend->context, text);
  if (outcome != SOFT_OK) {
    free(backend);
    return outcome;
  }
  *result = keep(backend);
  *functions = &table;
  return SOFT_OK;
}
