/* What runs a kernel: the narrow interface below the software Metal device.
 *
 * The device (native/softmetal/ *.m) keeps Metal's objects, order and rules; an executor compiles libraries and runs
 * one dispatch after another. The CPU executor lives in src/backend/ (Rust) and is reached through this table of C
 * functions and nothing else, so that another one (an NVIDIA GPU) can stand in its place.
 *
 * Every function may be called from any thread. None throws or unwinds. Strings returned through `error` are released
 * with `string_release`. */
#ifndef SOFTMETAL_EXECUTOR_H
#define SOFTMETAL_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOFT_MAX_BINDINGS = 31 }; /* Metal's buffer argument table */

typedef struct soft_library soft_library;   /* a compiled source */
typedef struct soft_function soft_function; /* one kernel of it, specialised */

/* A function constant's value, as MTLFunctionConstantValues hands it over. `type` is an MTLDataType. */
typedef struct soft_constant {
  const char *name; /* NULL: by index */
  uint32_t index;
  uint32_t type;
  uint8_t value[16];
} soft_constant;

typedef struct soft_function_info {
  uint32_t max_total_threads_per_threadgroup;
  uint32_t thread_execution_width;
  uint32_t static_threadgroup_memory; /* bytes */
  bool any_thread; /* threads other than the device's own may execute it, while the executor takes guests */
} soft_function_info;

/* One entry of the argument table at the time of the dispatch. */
typedef struct soft_binding {
  void *pointer;   /* NULL: nothing bound */
  uint64_t length; /* bytes from `pointer` to the end of the buffer or of the setBytes copy */
} soft_binding;

typedef struct soft_dispatch {
  soft_binding bindings[SOFT_MAX_BINDINGS];
  uint32_t threadgroup_memory[SOFT_MAX_BINDINGS]; /* bytes, setThreadgroupMemoryLength:atIndex: */
  uint32_t grid[3];        /* threadgroups, or threads when `threads` is set */
  uint32_t threadgroup[3]; /* threads per threadgroup */
  bool threads;            /* dispatchThreads: the last group of a row may be smaller */
} soft_dispatch;

/* How a dispatch ended. The values become MTLCommandBufferError codes in the device. */
typedef enum soft_outcome {
  SOFT_OK = 0,
  SOFT_PAGE_FAULT = 1,   /* the kernel's arguments reach outside a bound buffer */
  SOFT_INVALID = 2,      /* a binding is missing or an argument struct is too short */
  SOFT_INTERNAL = 3,     /* a bug of ours: a panic was caught */
  SOFT_OUT_OF_MEMORY = 4,
  SOFT_STACK_OVERFLOW = 5, /* a thread used more stack than there is */
  SOFT_TIMEOUT = 6,        /* a threadgroup took longer than it may */
  SOFT_UNSUPPORTED = 7     /* not on this system */
} soft_outcome;

typedef struct soft_executor {
  const char *name; /* "AMD EPYC …": becomes part of the device's name */
  /* Whether there is now what library_create needs for any source. When not, what it refuses is
   * MTLLibraryErrorUnsupported: the executor and not the source is at fault. */
  bool (*compiles_source)(void);

  /* Compiles `source` (UTF-8, not terminated). NULL and *error on failure. */
  soft_library *(*library_create)(const char *source, size_t length, char **error);
  void (*library_release)(soft_library *library);
  /* The name of kernel `index`, or NULL past the last one. Lives as long as the library. */
  const char *(*library_function_name)(const soft_library *library, size_t index);

  /* NULL and *error when there is no such kernel or it cannot be built. A function keeps its library alive. */
  soft_function *(*function_create)(soft_library *library, const char *name, const soft_constant *constants,
                                    size_t constant_count, char **error);
  void (*function_release)(soft_function *function);
  void (*function_describe)(const soft_function *function, soft_function_info *info);

  /* Runs one dispatch to its end on the executor's compute threads. On anything but SOFT_OK, *error says what. */
  soft_outcome (*execute)(const soft_function *function, const soft_dispatch *dispatch, char **error);

  /* Says that the calling thread is the device's own: it may be pinned. Called before `execute`, as often as one
   * likes. */
  void (*adopt_thread)(void);
  /* Whether other threads, which keep their processors and go on with something else afterwards, may call `execute`
   * now. */
  bool (*takes_guests)(void);

  /* The threads that compute, the one that calls `execute` among them. They can change at any time. */
  uint32_t (*threads)(void);
  /* SOFT_INVALID: not from 1 to the most that there may be; SOFT_OUT_OF_MEMORY: the system gave fewer, which are
   * used. */
  soft_outcome (*set_threads)(uint32_t threads, char **error);
  /* Pins the compute threads to these processors, in turn; none: they may run on any again. SOFT_INVALID: not a
   * processor of this process. */
  soft_outcome (*pin_threads)(const uint32_t *processors, size_t count, char **error);
  /* Nanoseconds for which a thread that brings work or waits for its end may look for it before it sleeps, as waking
   * one takes longer than many a kernel. 0 while the compute threads need all processors. */
  uint64_t (*patience)(void);

  void (*string_release)(char *string);
} soft_executor;

/* The CPU executor of src/backend/cpu/backend.rs. */
const soft_executor *softmetal_cpu_executor(void);

#ifdef __cplusplus
}
#endif
#endif
