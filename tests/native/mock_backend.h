/* A second backend behind backend.h: memory and order of its own, and kernels that somebody else brings. It stands
 * where a GPU's would.
 *
 * Private memory has no contents, and an address is no pointer. `which` is "mock", and after a colon any of
 *
 *   asynchronous=SEED  a submission is executed on one thread and completed on another, after a pause that the seed
 *                      draws, so that the next one begins before; no caller executes anything
 *   fail=SEED          one submission in four fails in the middle, with an outcome that the seed draws
 *   lose=N             the device is lost at the N-th submission
 *
 * Without `asynchronous`, a caller who waits executes what any thread may. */
#ifndef MOCK_BACKEND_H
#define MOCK_BACKEND_H

#include "backend.h"

/* A dispatch for who executes it: what is bound, as memory. `attached`: what `attach` made of the memory that the
 * binding is in. */
typedef struct mock_binding {
  void *pointer; /* NULL: nothing */
  uint64_t length;
  void *attached; /* NULL: bytes */
  uint64_t offset;
} mock_binding;

typedef struct mock_launch {
  const soft_dispatch *dispatch;
  mock_binding bindings[SOFT_MAX_BINDINGS];
  mock_binding textures[SOFT_MAX_TEXTURES];
} mock_launch;

/* Who compiles and executes kernels. */
typedef struct mock_kernels {
  const char *name;
  soft_outcome (*open)(void **context, char **text);
  void (*close)(void *context);
  soft_outcome (*module_create)(void *context, const char *source, size_t length, soft_module **module, char **text);
  void (*module_release)(void *context, soft_module *module);
  const char *(*module_function_name)(void *context, const soft_module *module, size_t index);
  soft_outcome (*function_create)(void *context, soft_module *module, const char *name, const soft_constant *constants,
                                  size_t constant_count, soft_function **function, char **text);
  void (*function_release)(void *context, soft_function *function);
  void (*function_describe)(void *context, const soft_function *function, soft_function_info *info);
  /* NULL: it does not know. */
  uint32_t (*function_parameters)(void *context, const soft_function *function, soft_parameter *parameters);
  /* NULL: memory is used as it is. */
  soft_outcome (*attach)(void *context, void *pages, uint64_t length, void **attached);
  void (*detach)(void *context, void *attached);
  /* NULL: any. Whether a thread that is not the stream's own may execute it. */
  bool (*runs_on_any_thread)(void *context, const soft_function *function);
  /* `own`: on a thread of the stream's. */
  soft_outcome (*execute)(void *context, const mock_launch *launch, bool own, char **text);
} mock_kernels;

/* As soft_backend_open, over these kernels. */
soft_outcome mock_backend_open(const mock_kernels *kernels, const char *which, soft_backend **backend,
                               const soft_backend_table **table, char **text);
/* Backends, buffers, modules, functions and streams given out and not given back. */
int mock_backend_live(void);

#endif
