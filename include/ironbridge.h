/* ironbridge: one bridge over Metal, in C.
 *
 * Everything that talks to a Metal device, Apple's or ironbridge's software one, goes through these functions.
 *
 * Handles. Every handle is opaque and checked: its value is a ticket and not an address, so a NULL, released or foreign
 * handle is answered with IRON_ERROR_INVALID_HANDLE and never with a crash. A function that hands out a handle hands
 * out one reference (+1); `*_retain` adds one, `*_release` gives one back. Order does not matter: whatever still needs
 * an object keeps it alive, so every handle may be released right after a commit.
 *
 * Threads. Every function may be called from any thread at any time, on any handle, with one exception: an
 * iron_commands is recorded by one thread at a time (two that record at once get IRON_ERROR_BUSY). No thread needs an
 * autorelease pool.
 *
 * Errors. Every function that can fail returns an iron_status and gives its results through out-parameters, which are
 * set to NULL or zero on failure. iron_last_error() has the sentence that goes with it and names the argument. Nothing
 * prints, exits, throws or aborts. Work that fails on the device after the commit is reported by iron_commands_wait,
 * once; the buffers that it would have written then refuse to be read (IRON_ERROR_POISONED) until they are wholly
 * rewritten.
 *
 * Host access waits. iron_buffer_read, iron_buffer_write and iron_buffer_map wait for the commands in flight that touch
 * the buffer, and refuse with IRON_ERROR_NOT_COMMITTED while commands that are still being recorded touch it in
 * conflict. A read or a write counts as a map while it copies: a host access or a recording that conflicts with an open
 * map is refused with IRON_ERROR_MAPPED, so nobody meets a half-done change. Only iron_buffer_contents hands out a
 * pointer without such protection.
 *
 * Options and descriptions start with `size`: set it to sizeof the struct. Fields that a caller's older struct lacks
 * take their defaults, and zero is the default of every field, so `{.size = sizeof(iron_matmul)}` is a valid start. A
 * newer struct is accepted while all that this library does not know of it is zero, so zero a struct that is to be
 * filled, too. A size that ends inside a field is IRON_ERROR_INVALID_ARGUMENT, and so is one of more than 4096. Structs
 * that stand in others or in arrays have `reserved` fields instead, which are zero. Fields have the same size for every
 * compiler: an enumeration is a uint32_t, and so is a truth value, 0 or 1.
 *
 * Limits. In every limit 0 is the default and the largest number of its type is no limit. Settings that change an open
 * device have its present limits for a default. The timeout of a wait is no limit that has a default: 0 polls.
 *
 * Stability. What this header declares keeps its names and meanings from 1.0 on. Kernels of the caller's and all of
 * ironbridge_memory.h and ironbridge_llama.h are experimental: any version may change them. A program that defines
 * IRON_STABLE_ONLY before it includes this header gets no experimental declaration. IRON_ABI_VERSION grows with every
 * change of either part.
 *
 * fork. A child has none of its parent's threads, so only devices that it opened itself can be used. Whatever it asks
 * of an inherited device, or of what belongs to one, fails at once with IRON_ERROR_INVALID_HANDLE. The handles can be
 * given back; the memory stays until the child ends. Callbacks of wrapped memory are the parent's to get. No program
 * forks in a callback of ironbridge's. At a child's exit no leaks are reported if its parent had a device, and a
 * pthread_atfork handler takes the parent's published figures out of it. A child that calls exec needs no care: every
 * descriptor of the library is close-on-exec.
 *
 * exit. The first device registers atexit handlers: one waits up to a second for work in flight and reports leaks to
 * iron_leak_hook or stderr, one takes away the published file. _exit, a signal or abort skip them, and need none of
 * them; a file that stays is known as stale. IRONBRIDGE_PUBLISH=0 publishes nothing; a hook that does nothing makes
 * leaks silent.
 *
 * dlclose. Give every handle back first. The library then stays mapped until the process ends, with its idle threads
 * and its published file, because neither its Objective-C classes nor running threads can be unloaded. A later dlopen
 * finds it as it was.
 *
 * Signals. The library installs no handler before a kernel from Metal source first runs on the software device. It
 * then handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGURG, on a stack of its own, and hands whatever is not a
 * kernel's on to the handler that was there before; install yours earlier, or hand on what you do not know.
 * IRONBRIDGE_SOFT_TIMEOUT=0 ends the use of SIGURG. Nothing else raises a signal. Published figures cannot raise
 * SIGBUS, whatever becomes of their file.
 *
 * Threads of the library's own. A device has one thread that submits its work, where it is a software device. All
 * software devices share IRONBRIDGE_THREADS - 1 compute threads (1: none), which are pinned as iron_compute_pin says,
 * in the beginning as IRONBRIDGE_PIN says (any: to no processor). While such a device computes on the caller's thread
 * in iron_commands_run or an endless wait, that thread may be moved among processors; its affinity is what it was
 * before when the call returns. One thread exists while the pool has idle memory (pool_idle_time UINT64_MAX: none)
 * or figures wait to be written to a plain published file,
 * and one watches kernels from source, once there was one (none, if neither of the limits below is set).
 *
 * Waits end. On the software device a threadgroup of a kernel from source takes IRONBRIDGE_SOFT_TIMEOUT seconds at most
 * (60; of processor time on Linux), and a dispatch, of an operation or of a kernel, at most
 * IRONBRIDGE_SOFT_DISPATCH_TIMEOUT seconds (600) and what it has begun by then; 0: no limit. What takes longer fails
 * with IRON_ERROR_DEVICE_TIMEOUT. Metal has a limit of its own for command buffers. So a wait without a timeout lasts
 * as long as the dispatches in flight at most, and as long as functions of the caller's (iron_release_callback) on
 * threads of the device. A compilation is bounded as docs/METAL.md says, and fails with IRON_ERROR_COMPILE.
 *
 * Published files. The first device makes one small record for monitors: ironbridge_monitor.h has where and how.
 * IRONBRIDGE_PUBLISH=0 makes none.
 *
 * Units: lengths and offsets in bytes, strides in elements, times in nanoseconds.
 *
 * C11 or C++17. */
#ifndef IRONBRIDGE_H
#define IRONBRIDGE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define IRON_API __attribute__((visibility("default")))
#else
#define IRON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------- version and errors -- */

/* Grows with every change that an older caller could notice. */
#define IRON_ABI_VERSION 4u
/* The crate's version. */
#define IRON_VERSION "0.1.0"

/* The IRON_ABI_VERSION that the library was built with: compare it with the header's. */
IRON_API uint32_t iron_abi_version(void);
/* The IRON_VERSION that the library was built with. Static. */
IRON_API const char *iron_version(void);

typedef enum iron_status {
  IRON_OK = 0,
  /* The call itself. */
  /* a NULL pointer, a zero or overflowing size, an unknown constant, a struct too short */
  IRON_ERROR_INVALID_ARGUMENT = 1,
  IRON_ERROR_INVALID_HANDLE = 2,    /* NULL, already released, or a handle of another kind */
  IRON_ERROR_OUT_OF_RANGE = 3,      /* a range that leaves its buffer, an index past the end */
  IRON_ERROR_SHAPE = 4,             /* operands whose shapes, strides or types do not fit each other */
  IRON_ERROR_WRONG_DEVICE = 5,      /* an object of another device */
  IRON_ERROR_NO_DEVICE = 6,         /* no device answers to that selector */
  IRON_ERROR_UNSUPPORTED = 7,       /* this device or build cannot do it */
  IRON_ERROR_NOT_FOUND = 8,         /* no kernel, key or token of that name */
  IRON_ERROR_COMPILE = 9,           /* the Metal source has errors: iron_last_error() has the compiler's text */
  IRON_ERROR_OUT_OF_MEMORY = 10,    /* an allocation failed, here or on the device */
  IRON_ERROR_STATE = 11,            /* not now: recorded after commit, waited before commit, … */
  IRON_ERROR_BUSY = 12,             /* another thread records these commands, or too many are open at once */
  IRON_ERROR_MAPPED = 13,           /* the host has mapped the buffer */
  IRON_ERROR_NOT_COMMITTED = 14,    /* commands still being recorded touch the buffer */
  IRON_ERROR_TIMEOUT = 15,          /* a wait's own limit passed; the work goes on */
  IRON_ERROR_POISONED = 16,         /* a submission that should have written the buffer failed */
  IRON_ERROR_READ_ONLY = 17,        /* a write, by host or command, to a buffer made read_only */
  /* Models: ironbridge_llama.h. */
  IRON_ERROR_FILE = 18,             /* a file cannot be opened, mapped or written */
  IRON_ERROR_MODEL = 19,            /* a model's file or numbers cannot be used: damaged, unsupported, not finite */
  IRON_ERROR_CONTEXT_FULL = 20,     /* more tokens than the context has room for */
  IRON_ERROR_CANCELED = 21,         /* a callback or an iron_cancel ended the call */
  IRON_ERROR_CHAT = 22,             /* a chat template has an error, fails, or refuses the conversation */
  /* The device, reported at the wait. After a fault of the GPU Metal may ignore what follows on the same device
   * (IRON_ERROR_DEVICE_LOST again and again): close it and open it anew. NVIDIA's driver gives a process no device
   * again after such a fault. */
  IRON_ERROR_DEVICE_TIMEOUT = 32,   /* MTLCommandBufferErrorTimeout */
  IRON_ERROR_DEVICE_PAGE_FAULT = 33,/* MTLCommandBufferErrorPageFault */
  IRON_ERROR_DEVICE_LOST = 34,      /* MTLCommandBufferErrorAccessRevoked, DeviceRemoved */
  IRON_ERROR_DEVICE_INVALID = 35,   /* MTLCommandBufferErrorInvalidResource, NotPermitted, StackOverflow, Memoryless */
  IRON_ERROR_DEVICE_INTERNAL = 36,  /* MTLCommandBufferErrorInternal and what is not known yet */
  /* ironbridge itself. */
  IRON_ERROR_INTERNAL = 64          /* an exception caught at the entry: please report it with iron_last_error() */
} iron_status;

/* "IRON_ERROR_SHAPE" and so on; "IRON_ERROR_UNKNOWN" for a number that is none. Static, never NULL. */
IRON_API const char *iron_status_name(iron_status status);
/* What the calling thread's most recent failing call had to say. Never NULL, "" before the first failure. Valid until
 * the thread's next failing call. */
IRON_API const char *iron_last_error(void);

/* ------------------------------------------------------------------------------------------------------- handles -- */

typedef struct iron_device iron_device;
typedef struct iron_buffer iron_buffer;
typedef struct iron_commands iron_commands;
typedef struct iron_library iron_library;
typedef struct iron_kernel iron_kernel;

/* ------------------------------------------------------------------------------------------------------- devices -- */

typedef enum iron_device_kind {
  IRON_DEVICE_METAL = 1,   /* Apple's Metal */
  IRON_DEVICE_SOFTWARE = 2 /* ironbridge's own Metal device on the CPU */
} iron_device_kind;

typedef struct iron_device_info {
  size_t size;
  uint32_t kind;  /* iron_device_kind */
  uint32_t index; /* in the list of devices */
  char name[128]; /* NUL-terminated UTF-8 */
  uint32_t unified_memory; /* 0 or 1 */
  uint32_t max_threads_per_threadgroup;
  uint32_t max_threadgroup_memory; /* bytes */
  uint64_t max_buffer_length;      /* bytes */
  uint64_t recommended_working_set;/* bytes */
  uint64_t allocated;              /* bytes that the device itself says this process has allocated on it */
  /* nanoseconds that it executed command buffers since it was opened, where what overlaps counts once; of a device that
   * is not open 0 */
  uint64_t worked;
} iron_device_info;

/* How many devices there are: Apple's first, the software device last. At least 1. */
IRON_API iron_status iron_device_count(uint32_t *count);
/* Describes device `index` without opening it. `info->size` must be set. */
IRON_API iron_status iron_device_describe_index(uint32_t index, iron_device_info *info);

/* What becomes of a pooled buffer that nobody uses. */
typedef enum iron_idle_policy {
  IRON_IDLE_DEFAULT = 0,  /* Volatile; to iron_memory_configure: as it is */
  IRON_IDLE_VOLATILE = 1, /* the system may take the pages when it needs them: quick to use again */
  IRON_IDLE_EMPTY = 2,    /* the pages go back after a second; only the addresses stay */
  IRON_IDLE_RELEASE = 3   /* nothing is kept: the buffer goes back to the system at once */
} iron_idle_policy;

typedef struct iron_device_options {
  size_t size;
  uint32_t max_operations;         /* operations recorded before the commands flush by themselves; 0: 100 */
  /* command buffers submitted and not complete, beyond which a flush waits; 0: 8; UINT32_MAX: 64, which a queue
   * holds; else at most 64 */
  uint32_t max_in_flight;
  uint64_t max_flush_bytes;        /* bytes touched by the recorded operations before they flush; 0: 1 GiB */
  uint64_t pool_max_bytes;         /* idle memory kept for reuse; 0: 256 MiB; UINT64_MAX: no limit */
  uint32_t pool_max_buffers;       /* idle buffers kept; 0: 64; UINT32_MAX: no limit */
  uint32_t pool_policy;            /* iron_idle_policy */
  /* larger buffers bypass the pool, as weights do; 0 or UINT64_MAX: those larger than pool_max_bytes */
  uint64_t pool_max_buffer_bytes;
  /* nanoseconds after which idle memory goes back to the system; 0: 30 s; UINT64_MAX: no limit */
  uint64_t pool_idle_time;
  /* bytes in buffers, wrapped ones apart, beyond which none is made; 0 or UINT64_MAX: no limit */
  uint64_t memory_limit;
} iron_device_options;

/* Opens a device. `selector`:
 *   NULL, "" or "default"  the environment's IRONBRIDGE_DEVICE, else the first of these that can be opened: Metal, a
 *                          GPU of NVIDIA's, the CPU
 *   "metal"                Apple's default Metal device
 *   "cpu"                  the software device; "cpu:KEY=VALUE,…" makes it strict, small or faulty (see docs of
 *                          softmetal.h)
 *   "nvidia", "nvidia:1"   a GPU of NVIDIA's, on Linux, by the driver's number
 *   "0", "1", …            by index
 * Each open has its own queue, pool and figures. `options` may be NULL. */
IRON_API iron_status iron_device_open(const char *selector, const iron_device_options *options, iron_device **device);
IRON_API iron_status iron_device_describe(iron_device *device, iron_device_info *info);
/* Waits until everything committed on the device is complete. `timeout`: 0 polls, UINT64_MAX waits without a timeout.
 * Reports the oldest failure whose commands were released without a wait, once; else IRON_OK or IRON_ERROR_TIMEOUT. */
IRON_API iron_status iron_device_sync(iron_device *device, uint64_t timeout);
/* Ends the use of a device for all its users: waits for what is in flight and for calls that make, read or write
 * buffers, gives idle memory back, and takes what is still allocated for leaked: beyond IRON_LEAK_THRESHOLD it is
 * reported (see iron_leak_hook), and the memory of every buffer that no command and no map uses goes back to the
 * system. All handles of the device and its buffers are invalid from then on, except that maps can and must still be
 * ended and handles given back. `leaks` may be NULL; its `allocations` is NULL. IRON_ERROR_TIMEOUT, and nothing has
 * changed, when work is still in flight after `timeout`. */
typedef struct iron_leaks iron_leaks;
IRON_API iron_status iron_device_close(iron_device *device, uint64_t timeout, iron_leaks *leaks);
/* The threads that the software device computes on: those of IRONBRIDGE_THREADS, else one for each processor, until
 * somebody sets their number. All software devices of the process share them; they may be changed at any time, also
 * while commands run. On a Metal device these functions fail with IRON_ERROR_UNSUPPORTED.
 *
 * iron_compute_set_threads takes 1 to 1024 (else IRON_ERROR_OUT_OF_RANGE) and waits for what threads that end are at.
 * When the system refuses a thread, there are fewer, and it fails with IRON_ERROR_OUT_OF_MEMORY. */
IRON_API iron_status iron_compute_threads(iron_device *device, uint32_t *threads);
IRON_API iron_status iron_compute_set_threads(iron_device *device, uint32_t threads);
/* Pins these threads to `count` processors, in turn, those that are started later as well; IRONBRIDGE_PIN does it from
 * the start. A thread that hands work over to the others, one for each open device, computes too: it keeps to the
 * processors that no other thread has, if there are any, else to all of them. A `count` of 0 lets all run on any
 * processor of the process. Until somebody pins them, they have a processor each if there are as many threads as
 * processors, and else run on any. IRON_ERROR_OUT_OF_RANGE: one of them is not the process's; IRON_ERROR_UNSUPPORTED:
 * the system (macOS) does not let a program choose. */
IRON_API iron_status iron_compute_pin(iron_device *device, const uint32_t *processors, size_t count);
IRON_API iron_status iron_device_retain(iron_device *device);
/* Gives the handle back. The device closes when its last handle, buffer and submission are gone. */
IRON_API iron_status iron_device_release(iron_device *device);

/* ------------------------------------------------------------------------------------------------------- buffers -- */

typedef enum iron_storage {
  IRON_STORAGE_SHARED = 0, /* host and device see the same memory */
  IRON_STORAGE_PRIVATE = 1 /* the device's own: no contents, no map; read and write go through a copy */
} iron_storage;

/* What memory is for; every allocation is counted under one of these. */
typedef enum iron_category {
  IRON_CATEGORY_OTHER = 0,
  IRON_CATEGORY_WEIGHTS = 1,
  IRON_CATEGORY_ACTIVATIONS = 2,
  IRON_CATEGORY_KV_CACHE = 3,
  IRON_CATEGORY_SCRATCH = 4,
  IRON_CATEGORY_POOL = 5,      /* idle, kept for reuse */
  IRON_CATEGORY_PIPELINES = 6, /* libraries, functions and pipeline states: counted, their bytes are the driver's */
  IRON_CATEGORY_QUEUES = 7     /* queues and command buffers: counted, their bytes are the driver's */
} iron_category;

/* Which commands may use a buffer, and how the host reaches it. */
typedef enum iron_usage {
  IRON_USAGE_ANY = 0,    /* all of them; iron_buffer_read, iron_buffer_write, iron_buffer_map */
  IRON_USAGE_WEIGHTS = 1 /* matmul as b, embedding as table; iron_weights_write, iron_weights_read */
} iron_usage;

typedef struct iron_buffer_options {
  size_t size;
  uint32_t storage;  /* iron_storage; of weights the device decides */
  uint32_t category; /* iron_category */
  const char *label; /* UTF-8, copied; NULL: none */
  /* 1: take it from the pool and give it back there. A pooled buffer's contents start undefined, others zeroed.
   * IRON_CATEGORY_WEIGHTS and what is larger than pool_max_buffer_bytes bypass the pool. */
  uint32_t pooled;
  /* 1, only with iron_buffer_wrap: every write is refused with IRON_ERROR_READ_ONLY. For memory mapped read-only. */
  uint32_t read_only;
  uint32_t usage; /* iron_usage; WEIGHTS: only with iron_buffer_create, and not pooled */
} iron_buffer_options;

/* Names the place in the caller's source where this thread makes its next call: what that call allocates or records is
 * reported with it. `file` is not copied and must stay valid (`__FILE__` does); `length` 0: it ends with a NUL. NULL:
 * no place. */
IRON_API iron_status iron_source(const char *file, size_t length, uint32_t line);
#define IRON_HERE(call) (iron_source(__FILE__, 0, __LINE__), (call))

/* A buffer of `length` bytes (> 0), zeroed unless pooled. `options` may be NULL: shared, other, no label. */
IRON_API iron_status iron_buffer_create(iron_device *device, uint64_t length, const iron_buffer_options *options,
                                        iron_buffer **buffer);
/* The same, filled from `bytes`. */
IRON_API iron_status iron_buffer_create_with_bytes(iron_device *device, const void *bytes, uint64_t length,
                                                   const iron_buffer_options *options, iron_buffer **buffer);
/* Called once when the device no longer needs wrapped memory, on a thread of the device or on the one that let go last.
 * It must not call ironbridge: what would wait for the device there fails with IRON_ERROR_STATE. */
typedef void (*iron_release_callback)(void *pointer, uint64_t length, void *context);
/* Wraps memory of the caller's without a copy. `pointer` and `length` must be multiples of the page size
 * (IRON_ERROR_INVALID_ARGUMENT otherwise); the memory must stay valid until `release` is called, which happens exactly
 * once if and only if this returns IRON_OK. `release` may be NULL. Pages may be shared, mapped from a file or
 * read-only: say `read_only` then, or the first write to them ends the process. */
IRON_API iron_status iron_buffer_wrap(iron_device *device, void *pointer, uint64_t length,
                                      iron_release_callback release, void *context, const iron_buffer_options *options,
                                      iron_buffer **buffer);
IRON_API iron_status iron_buffer_retain(iron_buffer *buffer);
IRON_API iron_status iron_buffer_release(iron_buffer *buffer);
IRON_API iron_status iron_buffer_length(iron_buffer *buffer, uint64_t *length);
/* Copies the label, NUL-terminated and cut to fit, into `text`. `capacity` > 0. */
IRON_API iron_status iron_buffer_label(iron_buffer *buffer, char *text, size_t capacity);
IRON_API iron_status iron_buffer_set_label(iron_buffer *buffer, const char *label);
/* Copies `length` bytes from `offset` out of the buffer, after waiting for the commands in flight that write it. */
IRON_API iron_status iron_buffer_read(iron_buffer *buffer, uint64_t offset, void *bytes, uint64_t length);
/* Copies `length` bytes into the buffer, after waiting for the commands in flight that read or write it. Writing the
 * whole buffer clears a poisoning. */
IRON_API iron_status iron_buffer_write(iron_buffer *buffer, uint64_t offset, const void *bytes, uint64_t length);

typedef enum iron_access { IRON_ACCESS_READ = 1, IRON_ACCESS_WRITE = 2, IRON_ACCESS_READ_WRITE = 3 } iron_access;
/* Waits as iron_buffer_read or iron_buffer_write does, then lends the memory of a shared buffer until
 * iron_buffer_unmap. While it is mapped, recording a command that conflicts fails with IRON_ERROR_MAPPED. Several read
 * maps may be open at once; a write map is alone. */
IRON_API iron_status iron_buffer_map(iron_buffer *buffer, iron_access access, void **pointer);
/* Ends one map made with the same `access`. */
IRON_API iron_status iron_buffer_unmap(iron_buffer *buffer, iron_access access);
/* The address of a shared buffer's memory, valid as long as the buffer, with no waiting and no protection: the caller
 * sees to it that no command in flight conflicts. */
IRON_API iron_status iron_buffer_contents(iron_buffer *buffer, void **pointer);

/* Weights. A buffer that is made with IRON_USAGE_WEIGHTS holds matrices of weights, which are written once and then
 * only read: by iron_encode_matmul as b, stored n × k (transpose_b), and by iron_encode_embedding as table. Every other
 * use is IRON_ERROR_INVALID_ARGUMENT. The device keeps them in a layout of its own, in as many bytes, and finds them by
 * the offsets of the plain layout.
 *
 * Rows of weights that are written together, and that a use begins and ends at a multiple of. */
#define IRON_WEIGHT_ROWS 32u

/* A matrix in a buffer of weights: `rows` rows of `width` elements without gaps. */
typedef struct iron_weights {
  size_t size;
  uint64_t offset; /* bytes, of its first row: a multiple as iron_tensor's */
  uint64_t rows, width;
  uint32_t dtype;  /* iron_dtype: F32, F16, BF16, or a block type, of which a row is whole blocks */
} iron_weights;
/* Writes `count` rows from row `first`, which are at `rows` in the plain layout of their type, without gaps. The first
 * call makes the matrix, which may overlap no other (IRON_ERROR_INVALID_ARGUMENT). Rows come in their order, each once:
 * `first` is how many were written so far (else IRON_ERROR_STATE), and `count` a multiple of IRON_WEIGHT_ROWS unless it
 * ends the matrix. From then on commands can use the matrix, before that they cannot, and nothing changes it any more:
 * both are IRON_ERROR_STATE. Commands in flight may use other matrices of the buffer meanwhile. Different matrices may
 * be written at the same time; two threads at one get IRON_ERROR_BUSY.
 *
 * A use names a type, a width (matmul's k) and rows (n, vocab) that begin at a multiple of IRON_WEIGHT_ROWS in a
 * matrix, and end at one or with the matrix. It may go on into the next matrix if that has the same type and width and
 * begins where this one ends, after whole IRON_WEIGHT_ROWS. */
IRON_API iron_status iron_weights_write(iron_buffer *buffer, const iron_weights *matrix, uint64_t first, uint64_t count,
                                        const void *rows);
/* Copies `count` rows from row `first`, of those that were written, to `rows`, in the plain layout. */
IRON_API iron_status iron_weights_read(iron_buffer *buffer, const iron_weights *matrix, uint64_t first, uint64_t count,
                                       void *rows);

/* ------------------------------------------------------------------------------------------------------ commands -- */

typedef enum iron_commands_state {
  IRON_COMMANDS_RECORDING = 0,
  IRON_COMMANDS_SUBMITTED = 1,
  IRON_COMMANDS_COMPLETED = 2,
  IRON_COMMANDS_FAILED = 3
} iron_commands_state;

typedef struct iron_commands_info {
  size_t size;
  uint32_t state;           /* iron_commands_state */
  uint32_t operations;      /* recorded so far */
  uint32_t command_buffers; /* submitted so far: more than one when the commands flushed themselves */
  uint64_t device_time;     /* nanoseconds that the device worked, summed over the complete command buffers */
} iron_commands_info;

/* How exactly a product of weights in blocks has its activations, where it has up to 16 rows of them. A device may
 * round them for it: a single row to 16 bits, or all to 8 where that is allowed. Each 32 neighbors then share a scale.
 * With 8 bits a value is off by at most 1/254 of the largest of them; llama.cpp rounds so on CPUs and NVIDIA's GPUs.
 * Products that have more rows, and those of other weights, never have fewer bits by it. */
typedef enum iron_activations {
  IRON_ACTIVATIONS_DEFAULT = 0,  /* commands: FLOAT; sessions: AUTOMATIC */
  IRON_ACTIVATIONS_FLOAT = 1,    /* at least 16 bits */
  IRON_ACTIVATIONS_BYTES = 2,    /* 8 bits, where there is a kernel for it */
  IRON_ACTIVATIONS_AUTOMATIC = 3 /* 8 bits where the device is faster with them */
} iron_activations;

typedef struct iron_commands_options {
  size_t size;
  const char *label;       /* UTF-8, copied; NULL: none */
  /* 0: the device's; 1: every operation in a command buffer of its own; UINT32_MAX: all in one, whatever its bytes */
  uint32_t max_operations;
  uint32_t activations; /* iron_activations */
} iron_commands_options;

/* Starts recording. Operations take effect in the order they are recorded, and commands in the order they are
 * committed. `options` may be NULL. */
IRON_API iron_status iron_commands_begin(iron_device *device, const iron_commands_options *options,
                                         iron_commands **commands);
/* Submits what is recorded so far and goes on recording. Happens by itself at max_operations and max_flush_bytes. */
IRON_API iron_status iron_commands_flush(iron_commands *commands);
/* Submits the rest and ends the recording. Empty commands are complete at once. */
IRON_API iron_status iron_commands_commit(iron_commands *commands);
/* Waits until all of it is complete. `timeout`: 0 polls, UINT64_MAX waits without a timeout. Returns the first failure
 * of these commands the first time and IRON_OK after that (iron_commands_describe still says FAILED). */
IRON_API iron_status iron_commands_wait(iron_commands *commands, uint64_t timeout);
/* iron_commands_commit and an untimed iron_commands_wait, in one. On the software device the calling thread then
 * executes the work itself where it can, as it does in an untimed wait and in a wait for a buffer. No other thread is
 * woken first, which takes longer than a small operation. */
IRON_API iron_status iron_commands_run(iron_commands *commands);
IRON_API iron_status iron_commands_describe(iron_commands *commands, iron_commands_info *info);

#ifndef IRON_STABLE_ONLY

/* One command buffer of some commands. */
typedef struct iron_submission {
  size_t size;
  uint32_t status;     /* iron_status: how it ended */
  uint32_t operations; /* in it */
  /* When the device began and ended it, in nanoseconds of the clock of MTLCommandBuffer's GPUStartTime; 0: it did not
   * run. Submissions of all devices of a system can be compared. */
  uint64_t start, end;
} iron_submission;

/* When command buffer `index` of those that `commands` submitted so far was executed. IRON_ERROR_OUT_OF_RANGE: there
 * are fewer; IRON_ERROR_STATE: it is not complete. Experimental. */
IRON_API iron_status iron_commands_submission(iron_commands *commands, uint32_t index, iron_submission *submission);

#endif /* IRON_STABLE_ONLY */

IRON_API iron_status iron_commands_retain(iron_commands *commands);
/* Gives the handle back. What was not committed or flushed is dropped; what was runs on. */
IRON_API iron_status iron_commands_release(iron_commands *commands);

/* ------------------------------------------------------------------------------------------------------- operations --
 * Each records one operation. All operands are checked before anything is recorded, so a failed call leaves the
 * commands as they were. Unless a comment says otherwise the output may not overlap an input. No operand is empty: a
 * dimension or a length of 0 is an IRON_ERROR_INVALID_ARGUMENT, but where a comment gives 0 a meaning. */

typedef enum iron_dtype {
  IRON_F32 = 1,
  IRON_F16 = 2,
  IRON_BF16 = 3,
  IRON_U32 = 4,
  /* GGML's block types: (weights, bytes) of a block; rows are whole blocks. Only weights have them: matmul's b,
   * transposed, and embedding's table. Layouts: ggml-common.h of llama.cpp. */
  IRON_Q8_0 = 16,  /* 32, 34: one f16 scale and 32 int8 */
  IRON_Q4_0 = 17,  /* 32, 18 */
  IRON_Q4_1 = 18,  /* 32, 20 */
  IRON_Q5_0 = 19,  /* 32, 22 */
  IRON_Q5_1 = 20,  /* 32, 24 */
  IRON_Q2_K = 21,  /* 256, 84 */
  IRON_Q3_K = 22,  /* 256, 110 */
  IRON_Q4_K = 23,  /* 256, 144 */
  IRON_Q5_K = 24,  /* 256, 176 */
  IRON_Q6_K = 25,  /* 256, 210 */
  IRON_IQ4_NL = 26, /* 32, 18 */
  IRON_IQ4_XS = 27, /* 256, 136 */
  IRON_TQ1_0 = 28,  /* 256, 54 */
  IRON_TQ2_0 = 29,  /* 256, 66 */
  IRON_MXFP4 = 30   /* 32, 17 */
} iron_dtype;

/* A matrix in a buffer, row-major. */
typedef struct iron_tensor {
  iron_buffer *buffer;
  uint64_t offset;       /* bytes, a multiple of the element's size (of 2 for block types but MXFP4) */
  uint64_t row_stride;   /* elements from row to row; 0: packed */
  uint64_t batch_stride; /* elements from matrix to matrix; 0: the same matrix for every batch (or one batch only) */
  uint32_t dtype;        /* iron_dtype */
  uint32_t reserved[7];  /* 0 */
} iron_tensor;

/* c[m,n] = alpha · op(a) op(b) + beta · c + bias, f32 accumulation.
 *   a: m × k, or k × m when transpose_a; F32 or F16.
 *   b: k × n, or n × k when transpose_b; F32, F16, BF16, or a block type (transposed only, k whole blocks).
 *   bias: n elements added to every row; buffer NULL: none. a, bias and c have one type.
 *   batch: 0 means 1. With batch > 1, c needs a batch_stride.
 *   alpha: 0 means 1. beta: where it is 0, c is not read. Other values need scratch memory of c's size, in which
 *     products are rounded to c's type. Both finite. */
typedef struct iron_matmul {
  size_t size;
  uint64_t m, n, k;
  iron_tensor a, b, bias, c;
  uint32_t batch;
  uint32_t transpose_a, transpose_b; /* 0 or 1 */
  uint32_t padding; /* not read */
  float alpha, beta;
} iron_matmul;
IRON_API iron_status iron_encode_matmul(iron_commands *commands, const iron_matmul *matmul);

/* out[i] = scale · table[ids[i]] as F32. table: vocab × width, F32, F16, BF16 or a block type; ids: `rows` U32; out:
 * rows × width. An id >= vocab gives a row of NaN. scale: finite; 0: 1. */
typedef struct iron_embedding {
  size_t size;
  uint64_t rows, width, vocab;
  iron_tensor table, ids, out;
  float scale;
} iron_embedding;
IRON_API iron_status iron_encode_embedding(iron_commands *commands, const iron_embedding *embedding);

/* out[i] = x[i] / sqrt(mean(x[i]²) + eps) · weight. x, out: rows × width; weight: width; all F32. out may be x. eps >=
 * 0. */
typedef struct iron_rms_norm {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, weight, out;
  float eps;
} iron_rms_norm;
IRON_API iron_status iron_encode_rms_norm(iron_commands *commands, const iron_rms_norm *norm);

typedef enum iron_rope_pairing {
  IRON_ROPE_INTERLEAVED = 0, /* elements 2i and 2i+1: GGUF's llama tensors */
  IRON_ROPE_HALF = 1         /* elements i and i + rotary_dim/2: Hugging Face's order */
} iron_rope_pairing;
/* Rotates x (tokens × heads × head_dim, F32) in place. x.row_stride is from token to token. positions: `tokens` U32.
 * factors: rotary_dim/2 F32 that divide the frequencies; buffer NULL: none. rotary_dim: even, 0 means head_dim.
 * frequency_scale: 0 means 1. */
typedef struct iron_rope {
  size_t size;
  uint64_t tokens, heads, head_dim, rotary_dim;
  iron_tensor x, positions, factors;
  uint32_t pairing; /* iron_rope_pairing */
  float frequency_base, frequency_scale;
} iron_rope;
IRON_API iron_status iron_encode_rope(iron_commands *commands, const iron_rope *rope);

/* Causal grouped-query attention over a cache.
 *   q, out: tokens × heads × head_dim, F32; row_stride is from token to token.
 *   k, v: the caches, (first_position + tokens) × kv_heads × head_dim, F32, F16, BF16 or Q8_0 (head_dim and strides
 *     multiples of 32), one type; row_stride from position to position.
 *   k_head_stride, v_head_stride: elements from head to head; 0: head_dim (position-major cache).
 *   Query t stands at position first_position + t and sees every key up to its own position, of those the last `window`
 *   (0: all).
 *   scale: 0 means 1/sqrt(head_dim). head_dim <= 256.
 *   softcap: above 0, a scaled score s is softcap · tanh(s / softcap) instead. */
typedef struct iron_attention {
  size_t size;
  uint64_t tokens, heads, kv_heads, head_dim;
  uint64_t first_position, window;
  iron_tensor q, k, v, out;
  uint64_t k_head_stride, v_head_stride;
  float scale;
  uint32_t padding; /* not read */
  float softcap;
} iron_attention;
IRON_API iron_status iron_encode_attention(iron_commands *commands, const iron_attention *attention);

/* out = f(a, b), `count` F32 elements each. out may be a or b. */
typedef struct iron_elementwise {
  size_t size;
  uint64_t count;
  iron_tensor a, b, out;
} iron_elementwise;
/* out = a + b. */
IRON_API iron_status iron_encode_add(iron_commands *commands, const iron_elementwise *operands);
/* out = silu(a) · b = a / (1 + exp(-a)) · b: SwiGLU with a the gate and b the up projection. */
IRON_API iron_status iron_encode_silu_mul(iron_commands *commands, const iron_elementwise *operands);
/* out = gelu(a) · b, gelu(x) = x/2 · (1 + tanh(sqrt(2/pi) · (x + 0.044715 x^3))): GeGLU, as Gemma has it. */
IRON_API iron_status iron_encode_gelu_mul(iron_commands *commands, const iron_elementwise *operands);

/* out = scale · f(x / scale), `count` F32 elements each. out may be x. A scale of 0 is 1. */
typedef struct iron_activation {
  size_t size;
  uint64_t count;
  iron_tensor x, out;
  float scale;
} iron_activation;
/* out = x where x >= 0, else 0. */
IRON_API iron_status iron_encode_relu(iron_commands *commands, const iron_activation *operands);
/* out = 1 / (1 + exp(-x)). */
IRON_API iron_status iron_encode_sigmoid(iron_commands *commands, const iron_activation *operands);
IRON_API iron_status iron_encode_tanh(iron_commands *commands, const iron_activation *operands);

/* out[i] = x[i] + bias, row by row. x, out: rows × width; bias: width; all F32. out may be x. */
typedef struct iron_add_bias {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, bias, out;
} iron_add_bias;
IRON_API iron_status iron_encode_add_bias(iron_commands *commands, const iron_add_bias *add_bias);

/* out[j][i] = x[i][j]. x: rows × width; out: width × rows; F32, F16, BF16 or U32, one type. */
typedef struct iron_transpose {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, out;
} iron_transpose;
IRON_API iron_status iron_encode_transpose(iron_commands *commands, const iron_transpose *transpose);

/* out[i] = softmax(scale · x[i]); rows × width, F32. out may be x. scale: 0 means 1. */
typedef struct iron_softmax {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, out;
  float scale;
} iron_softmax;
IRON_API iron_status iron_encode_softmax(iron_commands *commands, const iron_softmax *softmax);

/* out[i] = the lowest index of the largest value of x[i], U32; NaN is less than everything. x: rows × width, F32; out:
 * rows. */
typedef struct iron_argmax {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, out;
} iron_argmax;
IRON_API iron_status iron_encode_argmax(iron_commands *commands, const iron_argmax *argmax);

/* dst = src, rows × width: among F32, F16 and BF16 (to nearest even), from these to Q8_0, from Q8_0 to F32, or U32 to
 * U32. Q8_0 as GGML quantizes: each 32 elements have the scale max |x| / 127, rounded to F16, and the elements that
 * many times it, rounded to nearest. A NaN or infinity among them makes all 32 NaN. */
typedef struct iron_copy {
  size_t size;
  uint64_t rows, width;
  iron_tensor src, dst;
} iron_copy;
IRON_API iron_status iron_encode_copy(iron_commands *commands, const iron_copy *copy);

/* Training. A gradient is that of a loss with respect to an operand, and has its shape. All of these take F32. */

/* Backward of an activation: a is its output y, b the gradient of y, and out the gradient of its input. out may be a or
 * b. relu: b where y > 0, else 0. */
IRON_API iron_status iron_encode_relu_backward(iron_commands *commands, const iron_elementwise *operands);
/* b · y · (1 - y). */
IRON_API iron_status iron_encode_sigmoid_backward(iron_commands *commands, const iron_elementwise *operands);
/* b · (1 - y) · (1 + y). */
IRON_API iron_status iron_encode_tanh_backward(iron_commands *commands, const iron_elementwise *operands);

/* Backward of y = x · weightᵀ + bias, which iron_encode_matmul computes with transpose_b and a bias.
 *   x: rows × inputs; weight: outputs × inputs; gradient, of y: rows × outputs.
 *   x_gradient = gradient · weight; weight_gradient = gradientᵀ · x; bias_gradient = the sum of gradient's rows.
 * A result whose buffer is NULL is left out, and so may be what only it needs: weight, or x. One at least is asked
 * for. */
typedef struct iron_linear_backward {
  size_t size;
  uint64_t rows, inputs, outputs;
  iron_tensor x, weight, gradient;
  iron_tensor x_gradient, weight_gradient, bias_gradient;
} iron_linear_backward;
IRON_API iron_status iron_encode_linear_backward(iron_commands *commands, const iron_linear_backward *linear);

/* Backward of iron_encode_silu_mul and iron_encode_gelu_mul: a and b are their operands, gradient that of their result.
 * `count` elements each. */
typedef struct iron_gated {
  size_t size;
  uint64_t count;
  iron_tensor a, b, gradient, a_gradient, b_gradient;
} iron_gated;
IRON_API iron_status iron_encode_silu_mul_backward(iron_commands *commands, const iron_gated *operands);
IRON_API iron_status iron_encode_gelu_mul_backward(iron_commands *commands, const iron_gated *operands);

/* Backward of iron_encode_rms_norm. x, gradient, x_gradient, products: rows × width; weight: width. The sum of the rows
 * of products (iron_encode_sum_rows) is the gradient of weight. eps >= 0. */
typedef struct iron_rms_norm_backward {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, weight, gradient, x_gradient, products;
  float eps;
} iron_rms_norm_backward;
IRON_API iron_status iron_encode_rms_norm_backward(iron_commands *commands, const iron_rms_norm_backward *norm);

/* Backward of iron_encode_softmax: out = scale · y · (gradient - the sum of y · gradient over a row), y its output.
 * rows × width. out may be gradient. scale: 0 means 1. */
typedef struct iron_softmax_backward {
  size_t size;
  uint64_t rows, width;
  iron_tensor y, gradient, out;
  float scale;
} iron_softmax_backward;
IRON_API iron_status iron_encode_softmax_backward(iron_commands *commands, const iron_softmax_backward *softmax);

/* Backward of iron_encode_embedding: out[v] = scale · the sum of gradient[i] over the rows i whose ids[i] is v. ids:
 * rows, U32; gradient: rows × width; out: vocab × width. An id >= vocab adds to nothing. scale: 0 means 1. */
typedef struct iron_embedding_backward {
  size_t size;
  uint64_t rows, width, vocab;
  iron_tensor ids, gradient, out;
  float scale;
} iron_embedding_backward;
IRON_API iron_status iron_encode_embedding_backward(iron_commands *commands, const iron_embedding_backward *embedding);

/* Backward of iron_encode_attention with first_position 0, no window and no softcap. q, out, gradient and q_gradient:
 * tokens × heads × head_dim; k, v, k_gradient and v_gradient: tokens × kv_heads × head_dim; row_stride is from token to
 * token. out is attention's result, gradient that of out. scale: 0 means 1/sqrt(head_dim). head_dim <= 256. */
typedef struct iron_attention_backward {
  size_t size;
  uint64_t tokens, heads, kv_heads, head_dim;
  iron_tensor q, k, v, out, gradient;
  iron_tensor q_gradient, k_gradient, v_gradient;
  float scale;
} iron_attention_backward;
IRON_API iron_status iron_encode_attention_backward(iron_commands *commands, const iron_attention_backward *attention);

/* out[j] = the sum of x[i][j] over the rows i. x: rows × width; out: width. */
typedef struct iron_sum_rows {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, out;
} iron_sum_rows;
IRON_API iron_status iron_encode_sum_rows(iron_commands *commands, const iron_sum_rows *sum_rows);

/* out[i] = the sum of x[i][j]² over a row. x: rows × width; out: rows. */
typedef struct iron_sum_squares {
  size_t size;
  uint64_t rows, width;
  iron_tensor x, out;
} iron_sum_squares;
IRON_API iron_status iron_encode_sum_squares(iron_commands *commands, const iron_sum_squares *sum_squares);

/* Scales a gradient and clips it by a norm, in place: x *= scale * min(1, norm / (|scale| * sqrt(squares) + 1e-6)).
 * squares: one element, the sum of the squares of all gradients that are clipped together, before they are scaled; x:
 * `count` elements. norm >= 0. scale: 0 means 1. */
typedef struct iron_clip_norm {
  size_t size;
  uint64_t count;
  iron_tensor squares, x;
  float norm;
  uint32_t padding; /* not read */
  float scale;
} iron_clip_norm;
IRON_API iron_status iron_encode_clip_norm(iron_commands *commands, const iron_clip_norm *clip_norm);

/* Squared error and its gradient: loss[i] = scale · the sum of (prediction[i] - target[i])², gradient = 2 · scale ·
 * (prediction - target). prediction, target, gradient: rows × width; loss: rows. scale: 0 means 1. With 1 / (rows ·
 * width) the sum of the losses is the mean squared error, and gradient is of that. */
typedef struct iron_mse {
  size_t size;
  uint64_t rows, width;
  iron_tensor prediction, target, gradient, loss;
  float scale;
} iron_mse;
IRON_API iron_status iron_encode_mse(iron_commands *commands, const iron_mse *mse);

/* Cross-entropy of softmax(logits) and its gradient: loss[i] = -scale · log softmax(logits[i])[labels[i]],
 * gradient[i] = scale · (softmax(logits[i]) - one at labels[i]). logits, gradient: rows × width; labels: rows U32;
 * loss: rows. scale: 0 means 1. A row whose label is IRON_IGNORED_LABEL has loss and gradient 0; any other label >=
 * width makes both of its row NaN. */
#define IRON_IGNORED_LABEL 0xffffffffu
typedef struct iron_cross_entropy {
  size_t size;
  uint64_t rows, width;
  iron_tensor logits, labels, gradient, loss;
  float scale;
} iron_cross_entropy;
IRON_API iron_status iron_encode_cross_entropy(iron_commands *commands, const iron_cross_entropy *cross_entropy);

/* A step of stochastic gradient descent with momentum, in place: g = gradient + weight_decay · weights, velocity =
 * momentum · velocity + g, weights -= learning_rate · velocity. `count` elements each; velocity begins as zeros.
 * momentum: from 0 to below 1. */
typedef struct iron_sgd {
  size_t size;
  uint64_t count;
  iron_tensor gradient, weights, velocity;
  float learning_rate, momentum, weight_decay;
} iron_sgd;
IRON_API iron_status iron_encode_sgd_step(iron_commands *commands, const iron_sgd *sgd);

/* Step `step`, from 1 on, of Adam, in place; with a weight_decay it is AdamW.
 *   first_moment = beta1 · first_moment + (1 - beta1) · gradient; second_moment the same of beta2 and gradient²
 *   weights = (1 - learning_rate · weight_decay) · weights - learning_rate · m / (sqrt(v) + eps), where m is
 *     first_moment / (1 - beta1^step), and v second_moment / (1 - beta2^step)
 * `count` elements each; moments begin as zeros. beta1, beta2: below 1; 0 means 0.9 and 0.999. eps: 0 means 1e-8. */
typedef struct iron_adam {
  size_t size;
  uint64_t count, step;
  iron_tensor gradient, weights, first_moment, second_moment;
  float learning_rate, beta1, beta2, eps, weight_decay;
} iron_adam;
IRON_API iron_status iron_encode_adam_step(iron_commands *commands, const iron_adam *adam);

/* Copies `length` bytes. Within one buffer the ranges must not overlap. Offsets and length: multiples of 4. */
IRON_API iron_status iron_encode_copy_bytes(iron_commands *commands, iron_buffer *source, uint64_t source_offset,
                                            iron_buffer *destination, uint64_t destination_offset, uint64_t length);
/* Sets `length` bytes to `value`. Offset and length: multiples of 4. Filling the whole buffer clears a poisoning. */
IRON_API iron_status iron_encode_fill(iron_commands *commands, iron_buffer *buffer, uint64_t offset, uint64_t length,
                                      uint8_t value);

/* ------------------------------------------------------------------------------------ user kernels: experimental -- */

#ifndef IRON_STABLE_ONLY

/* Compiles Metal Shading Language. IRON_ERROR_COMPILE: iron_last_error() has the compiler's messages.
 * IRON_ERROR_UNSUPPORTED: this device cannot compile source; the message says what it would need. */
IRON_API iron_status iron_library_create(iron_device *device, const char *source, iron_library **library);

/* What the compiler may do with floating-point numbers (MTLMathMode). */
typedef enum iron_math_mode {
  IRON_MATH_DEFAULT = 0, /* the device's: Apple's is fast */
  IRON_MATH_SAFE = 1,    /* as IEEE 754 says, NaN and infinity among it */
  IRON_MATH_RELAXED = 2, /* reorders, and keeps NaN and infinity; before macOS 15: safe */
  IRON_MATH_FAST = 3     /* takes it for granted that there is no NaN and no infinity */
} iron_math_mode;

/* What the preprocessor knows of `name`: an identifier, once. `value`: one line; NULL: nothing. */
typedef struct iron_macro {
  const char *name;
  const char *value;
  uint32_t reserved[4]; /* 0 */
} iron_macro;

typedef struct iron_library_options {
  size_t size;
  uint32_t language_version; /* 300 for Metal 3.0, 310, 320, 400, …; 0: the device's newest */
  uint32_t math_mode;        /* iron_math_mode; the software device computes safely in each */
  const iron_macro *macros;
  size_t macro_count;        /* at most 1024 */
} iron_library_options;

/* The same, with options (NULL: none). IRON_ERROR_UNSUPPORTED: the device does not know the language's version.
 * iron_source_with_includes has folders of files that a source includes. */
IRON_API iron_status iron_library_create_with_options(iron_device *device, const char *source,
                                                      const iron_library_options *options, iron_library **library);

/* Copies `source` with every `#include` that `folders` have replaced by the file's text, and a NUL, or nothing when it
 * does not fit: IRON_ERROR_OUT_OF_RANGE. With a capacity of 0 (`text` may be NULL) it gives the length alone, without
 * the NUL. A file is looked for beside the one that includes it, when it is named in quotes, and then in `folders` in
 * their order; what none of them has stays. `#line` directives keep the places of errors. IRON_ERROR_COMPILE: files
 * include each other without an end (64 within each other are possible), cannot be read, or are too long (8 MiB). */
IRON_API iron_status iron_source_with_includes(const char *source, const char *const *folders, size_t folder_count,
                                               char *text, size_t capacity, size_t *length);

/* A library that Apple's `metallib` tool made. IRON_ERROR_FILE: it cannot be read, or is none;
 * IRON_ERROR_UNSUPPORTED: this device, as the software device, cannot run code that was compiled for Apple's GPUs. */
IRON_API iron_status iron_library_open(iron_device *device, const char *path, iron_library **library);
/* How many kernels the library has. */
IRON_API iron_status iron_library_kernel_count(iron_library *library, uint32_t *count);
/* Copies the name of kernel `index` with its NUL, or nothing when it does not fit: IRON_ERROR_OUT_OF_RANGE. With a
 * capacity of 0 (`text` may be NULL) it gives the length alone, without the NUL. */
IRON_API iron_status iron_library_kernel_name(iron_library *library, uint32_t index, char *text, size_t capacity,
                                              size_t *length);
IRON_API iron_status iron_library_retain(iron_library *library);
IRON_API iron_status iron_library_release(iron_library *library);

/* What `T` or its components are in `constant T x [[function_constant(index)]]`. */
typedef enum iron_constant_type {
  IRON_CONSTANT_BOOL = 1,
  IRON_CONSTANT_I32 = 2,  /* int */
  IRON_CONSTANT_U32 = 3,  /* uint */
  IRON_CONSTANT_F32 = 4,  /* float */
  IRON_CONSTANT_F16 = 5,  /* half */
  IRON_CONSTANT_I16 = 6,  /* short */
  IRON_CONSTANT_U16 = 7,  /* ushort */
  IRON_CONSTANT_I8 = 8,   /* char */
  IRON_CONSTANT_U8 = 9,   /* uchar */
  IRON_CONSTANT_I64 = 10, /* long */
  IRON_CONSTANT_U64 = 11, /* ulong */
  IRON_CONSTANT_BF16 = 12 /* bfloat; on Apple's from macOS 14 on */
} iron_constant_type;
/* A value for `constant T x [[function_constant(index)]]`. */
typedef struct iron_constant {
  const char *name;     /* `x`; NULL: the one at `index` */
  uint32_t index;       /* 0 where there is a name */
  uint32_t type;        /* iron_constant_type */
  uint32_t components;  /* of a vector: 2, 3 or 4; 0 or 1: `T` is a scalar */
  uint32_t reserved[5]; /* 0 */
  /* A scalar, or a vector's components in the array of the same type. */
  union {
    uint32_t boolean; /* 0 or 1 */
    int32_t i32;
    uint32_t u32;
    float f32;
    uint16_t f16; /* the bits of a half */
    uint16_t bf16;
    int16_t i16;
    uint16_t u16;
    int8_t i8;
    uint8_t u8;
    int64_t i64;
    uint64_t u64;
    uint32_t booleans[4];
    int32_t i32s[4];
    uint32_t u32s[4];
    float f32s[4];
    uint16_t f16s[4];
    uint16_t bf16s[4];
    int16_t i16s[4];
    uint16_t u16s[4];
    int8_t i8s[4];
    uint8_t u8s[4];
    int64_t i64s[4];
    uint64_t u64s[4];
  } value;
} iron_constant;

/* The kernel `name` of a library, specialized with `constants` (may be NULL when there are none). */
IRON_API iron_status iron_kernel_create(iron_library *library, const char *name, const iron_constant *constants,
                                        size_t constant_count, iron_kernel **kernel);
typedef struct iron_kernel_info {
  size_t size;
  uint32_t max_threads_per_threadgroup;
  uint32_t simd_width;
  uint32_t static_threadgroup_memory; /* bytes */
  uint32_t argument_count; /* buffers, threadgroup memory, textures and samplers; 0, too, where it is not known */
} iron_kernel_info;
IRON_API iron_status iron_kernel_describe(iron_kernel *kernel, iron_kernel_info *info);

typedef struct iron_kernel_argument_info {
  size_t size;
  uint32_t kind;      /* iron_argument_kind; IRON_ARGUMENT_BUFFER is what bytes fit, too */
  uint32_t index;     /* [[buffer(index)]], [[threadgroup(index)]], [[texture(index)]] or [[sampler(index)]] */
  uint32_t access;    /* iron_access, by the type of the parameter */
  uint64_t byte_size; /* that have to be bound at least: of what a reference refers to; 0 for a pointer */
  uint64_t alignment; /* bytes, of the address */
  uint32_t texture_type;  /* TEXTURE: an MTLTextureType; 2: texture2d, 9: texture_buffer */
  uint32_t texture_value; /* TEXTURE: iron_texture_value */
} iron_kernel_argument_info;
/* Argument `position` < argument_count, in the order of the kernel's parameters. */
IRON_API iron_status iron_kernel_argument(iron_kernel *kernel, uint32_t position, iron_kernel_argument_info *info);
IRON_API iron_status iron_kernel_retain(iron_kernel *kernel);
IRON_API iron_status iron_kernel_release(iron_kernel *kernel);

typedef enum iron_argument_kind {
  IRON_ARGUMENT_BUFFER = 1,
  IRON_ARGUMENT_BYTES = 2,       /* at most 4096 bytes, copied */
  IRON_ARGUMENT_THREADGROUP = 3, /* `length` bytes of threadgroup memory, a multiple of 16 */
  IRON_ARGUMENT_TEXTURE = 4,     /* texels in a buffer: `bytes` is an iron_texture */
  IRON_ARGUMENT_SAMPLER = 5      /* `bytes` is an iron_texture_sampler */
} iron_argument_kind;
typedef struct iron_argument {
  uint32_t kind;       /* iron_argument_kind */
  uint32_t index;      /* [[buffer(index)]] or [[threadgroup(index)]], < 31; [[texture(index)]], < 128;
                          [[sampler(index)]], < 16 */
  iron_buffer *buffer; /* BUFFER, TEXTURE */
  uint64_t offset;     /* BUFFER, TEXTURE */
  const void *bytes;   /* BYTES, TEXTURE, SAMPLER */
  uint64_t length;     /* BYTES, THREADGROUP */
  uint32_t access;     /* BUFFER, TEXTURE: iron_access, what the kernel does with it */
  uint32_t reserved[5];/* 0 */
} iron_argument;

/* What a kernel takes a texture's components for. */
typedef enum iron_texture_value {
  IRON_TEXTURE_FLOAT = 1, /* float or half */
  IRON_TEXTURE_UINT = 2,
  IRON_TEXTURE_SINT = 3
} iron_texture_value;

/* Values: MTLPixelFormat. */
typedef enum iron_pixel_format {
  IRON_PIXEL_R8_UNORM = 10,
  IRON_PIXEL_R8_SNORM = 12,
  IRON_PIXEL_R8_UINT = 13,
  IRON_PIXEL_R8_SINT = 14,
  IRON_PIXEL_R16_UNORM = 20,
  IRON_PIXEL_R16_SNORM = 22,
  IRON_PIXEL_R16_UINT = 23,
  IRON_PIXEL_R16_SINT = 24,
  IRON_PIXEL_R16_FLOAT = 25,
  IRON_PIXEL_RG8_UNORM = 30,
  IRON_PIXEL_RG8_SNORM = 32,
  IRON_PIXEL_RG8_UINT = 33,
  IRON_PIXEL_RG8_SINT = 34,
  IRON_PIXEL_R32_UINT = 53,
  IRON_PIXEL_R32_SINT = 54,
  IRON_PIXEL_R32_FLOAT = 55,
  IRON_PIXEL_RG16_UNORM = 60,
  IRON_PIXEL_RG16_SNORM = 62,
  IRON_PIXEL_RG16_UINT = 63,
  IRON_PIXEL_RG16_SINT = 64,
  IRON_PIXEL_RG16_FLOAT = 65,
  IRON_PIXEL_RGBA8_UNORM = 70,
  IRON_PIXEL_RGBA8_UNORM_SRGB = 71,
  IRON_PIXEL_RGBA8_SNORM = 72,
  IRON_PIXEL_RGBA8_UINT = 73,
  IRON_PIXEL_RGBA8_SINT = 74,
  IRON_PIXEL_BGRA8_UNORM = 80,
  IRON_PIXEL_BGRA8_UNORM_SRGB = 81,
  IRON_PIXEL_RG32_UINT = 103,
  IRON_PIXEL_RG32_SINT = 104,
  IRON_PIXEL_RG32_FLOAT = 105,
  IRON_PIXEL_RGBA16_UNORM = 110,
  IRON_PIXEL_RGBA16_SNORM = 112,
  IRON_PIXEL_RGBA16_UINT = 113,
  IRON_PIXEL_RGBA16_SINT = 114,
  IRON_PIXEL_RGBA16_FLOAT = 115,
  IRON_PIXEL_RGBA32_UINT = 123,
  IRON_PIXEL_RGBA32_SINT = 124,
  IRON_PIXEL_RGBA32_FLOAT = 125
} iron_pixel_format;

typedef enum iron_texture_shape {
  IRON_TEXTURE_SHAPE_2D = 0,         /* texture2d */
  IRON_TEXTURE_SHAPE_1D = 1,         /* texture1d */
  IRON_TEXTURE_SHAPE_1D_ARRAY = 2,   /* texture1d_array */
  IRON_TEXTURE_SHAPE_2D_ARRAY = 3,   /* texture2d_array */
  IRON_TEXTURE_SHAPE_3D = 4,         /* texture3d */
  IRON_TEXTURE_SHAPE_CUBE = 5,       /* texturecube: six slices, in the order +x -x +y -y +z -z */
  IRON_TEXTURE_SHAPE_CUBE_ARRAY = 6, /* texturecube_array: six slices a layer */
  IRON_TEXTURE_SHAPE_BUFFER = 7      /* texture_buffer */
} iron_texture_shape;

/* A texture of one level whose rows lie in a buffer from the argument's offset on; depth2d and its like take the shapes
 * of their color textures. The offset, row_bytes and slice_bytes are multiples of a texel's bytes.
 * SHAPE_2D and SHAPE_BUFFER are the buffer's own bytes. GPUs want larger multiples for them, which
 * minimumLinearTextureAlignmentForPixelFormat: and minimumTextureBufferAlignmentForPixelFormat: of the device say.
 * The other shapes are copies: texels are copied before the kernel runs, and back after it when IRON_ACCESS_WRITE is
 * set. So other arguments of the same dispatch do not see what it writes there, and of two that write the same bytes
 * one wins. A copy takes memory of the device until the commands are complete, and row_bytes is at most 32767 texels.
 * IRON_ERROR_UNSUPPORTED: the device has no textures, or the kernel takes a multisample one.
 * IRON_ERROR_INVALID_ARGUMENT: the kernel takes one of another shape or of other numbers. */
typedef struct iron_texture {
  uint32_t format; /* iron_pixel_format */
  uint32_t width;  /* texels, 1 to 16384; to 2048 of SHAPE_3D, to 2^28 of SHAPE_BUFFER */
  uint32_t height; /* the same; 0 or 1 of SHAPE_1D, SHAPE_1D_ARRAY and SHAPE_BUFFER; width of a cube */
  uint32_t row_bytes;   /* from one row to the next; 0: width texels */
  uint32_t shape;       /* iron_texture_shape */
  uint32_t layers;      /* planes of SHAPE_3D, elements of arrays: 1 to 2048, to 341 cubes; 0 or 1 of the others */
  uint32_t slice_bytes; /* from one plane, element or face to the next; 0: height rows */
  uint32_t reserved[1]; /* 0 */
} iron_texture;

/* Values: MTLSamplerAddressMode. */
typedef enum iron_address_mode {
  IRON_ADDRESS_CLAMP_TO_EDGE = 0,
  IRON_ADDRESS_MIRROR_CLAMP_TO_EDGE = 1,
  IRON_ADDRESS_REPEAT = 2,
  IRON_ADDRESS_MIRROR_REPEAT = 3,
  IRON_ADDRESS_CLAMP_TO_ZERO = 4,
  IRON_ADDRESS_CLAMP_TO_BORDER = 5 /* (0, 0, 0, 0) */
} iron_address_mode;

/* A `sampler` of a kernel. */
typedef struct iron_texture_sampler {
  uint32_t address[3]; /* iron_address_mode, along x, y and z */
  uint32_t linear;     /* 0: the nearest texel; 1: between the nearest two along each axis */
  uint32_t pixels;     /* 0: coordinates are from 0 to 1; 1: they count texels, and no address mode repeats */
  uint32_t reserved[5];/* 0 */
} iron_texture_sampler;

typedef struct iron_dispatch {
  size_t size;
  const iron_argument *arguments;
  size_t argument_count;
  uint32_t grid[3];        /* threads when `threads`, else threadgroups; none may be 0 */
  uint32_t threadgroup[3]; /* threads per threadgroup; none may be 0 */
  uint32_t threads;        /* 0 or 1 */
} iron_dispatch;
/* Records a dispatch of a kernel of the same device. */
IRON_API iron_status iron_encode_kernel(iron_commands *commands, iron_kernel *kernel, const iron_dispatch *dispatch);

/* ------------------------------------------------------------------------------------- with Metal: experimental --
 * Objects of Metal's are `void *` here, an id<MTLDevice>, id<MTLCommandQueue> or id<MTLBuffer>. What is handed in is
 * retained for as long as it is used, what is handed out is not retained and lives at least as long as the handle. Only
 * NULL, and an object of another kind, can be told from what is right. The software device's objects are of GNUstep's
 * runtime on Linux. */

/* Opens a Metal device of the caller's. `metal_queue` is a queue of that device that the commands go to, so that they
 * are in order with the caller's own; NULL: a new one. On a queue of the caller's, max_in_flight is at most 16, and at
 * most 32 commands can be recorded at once, because MTLDevice's newCommandQueue holds 64 command buffers; a queue with
 * room for fewer blocks. What the caller has enqueued there and not committed blocks what comes after it.
 * IRON_ERROR_WRONG_DEVICE: the queue is of another device. IRON_ERROR_UNSUPPORTED: the GPU cannot run the kernels. */
IRON_API iron_status iron_device_wrap_metal(void *metal_device, void *metal_queue, const iron_device_options *options,
                                            iron_device **device);
/* The device's own objects; either place may be NULL. */
IRON_API iron_status iron_device_metal(iron_device *device, void **metal_device, void **metal_queue);
/* A buffer around one of the caller's, of the same device, in shared or private storage; it counts as wrapped memory.
 * `options`: category, label and read_only; the rest is 0. What the caller's own command buffers and code do with its
 * contents, the caller keeps in order with what is done here. Its purgeable state stays nonvolatile.
 * IRON_ERROR_WRONG_DEVICE: it is of another device; IRON_ERROR_UNSUPPORTED: its storage is neither. */
IRON_API iron_status iron_buffer_wrap_metal(iron_device *device, void *metal_buffer, const iron_buffer_options *options,
                                            iron_buffer **buffer);
/* The id<MTLBuffer> of a buffer, which may be longer than it; weights have none (IRON_ERROR_INVALID_ARGUMENT). */
IRON_API iron_status iron_buffer_metal(iron_buffer *buffer, void **metal_buffer);

/* Keeps the pipelines that are made from now on in a binary archive (MTLBinaryArchive), and takes from it those that it
 * has, so that the next process need not compile them. `path` may not exist yet; nothing is written before
 * iron_pipeline_cache_save. A device has one, once (IRON_ERROR_STATE). IRON_ERROR_FILE: there is a file, and it is no
 * archive of such a device. The software device notes the kernels' names: what it compiles, it keeps elsewhere
 * (docs/METAL.md). */
IRON_API iron_status iron_pipeline_cache_open(iron_device *device, const char *path);
/* Writes the archive to its file. IRON_ERROR_FILE: that is not possible; IRON_ERROR_STATE: none was opened. */
IRON_API iron_status iron_pipeline_cache_save(iron_device *device);

/* Captures what the device's queue executes until iron_capture_end, or until the device closes, for Xcode's Metal
 * debugger: commands that were submitted in between. `path` ends in .gputrace and does not exist (IRON_ERROR_FILE). The
 * process must have been started with MTL_CAPTURE_ENABLED=1 (IRON_ERROR_UNSUPPORTED), and has one capture at a time
 * (IRON_ERROR_STATE). The software device writes a text: a line for each command buffer. */
IRON_API iron_status iron_capture_begin(iron_device *device, const char *path);
/* IRON_ERROR_STATE: the device has no capture under way. */
IRON_API iron_status iron_capture_end(iron_device *device);

#endif /* IRON_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
