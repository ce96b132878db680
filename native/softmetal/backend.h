/* What executes commands below the software Metal device.
 *
 * The device (native/softmetal) keeps Metal's objects, order and rules. A backend holds memory, compiles sources
 * and executes whole lists of commands. It is reached through this table of C functions and through nothing else;
 * src/backend/vtable.rs makes the table of a Rust type.
 *
 * Any thread may call any function, and none throws or unwinds. A function that can fail returns an outcome; on
 * anything but SOFT_OK its results are untouched and *text, unless `text` is NULL, receives a sentence for the user or
 * NULL. Texts come from malloc; the caller frees them. Lengths and offsets are in bytes, times in nanoseconds of
 * CLOCK_MONOTONIC.
 *
 * Callbacks (soft_submission) run on a thread of the backend's or inside `stream_start` and `stream_help`, never inside
 * another function, with no lock of the backend's held. They may call every function of this table. */
#ifndef SOFTMETAL_BACKEND_H
#define SOFTMETAL_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SOFT_BACKEND_VERSION = 4,
  SOFT_MAX_BINDINGS = 31, /* Metal's argument tables */
  SOFT_MAX_TEXTURES = 128,
  SOFT_MAX_SAMPLERS = 16,
  SOFT_MAX_PARAMETERS = 2 * SOFT_MAX_BINDINGS + SOFT_MAX_TEXTURES + SOFT_MAX_SAMPLERS,
  SOFT_COMMANDS_PER_CHUNK = 32,
  SOFT_WEIGHT_ROWS = 32, /* rows are written in multiples of this */
};

typedef struct soft_backend soft_backend;   /* an open device */
typedef struct soft_buffer soft_buffer;     /* memory */
typedef struct soft_module soft_module;     /* a compiled source */
typedef struct soft_function soft_function; /* one kernel of it, specialized; keeps its module */
typedef struct soft_stream soft_stream;     /* submissions, executed in the order of their submission */

typedef enum soft_outcome {
  SOFT_OK = 0,
  SOFT_PAGE_FAULT = 1, /* a kernel reaches outside a bound buffer */
  SOFT_INVALID = 2,    /* an argument, a source or a dispatch that contradicts itself */
  SOFT_INTERNAL = 3,   /* a bug of the backend's */
  SOFT_OUT_OF_MEMORY = 4,
  SOFT_STACK_OVERFLOW = 5,
  SOFT_TIMEOUT = 6,     /* a kernel took longer than it may */
  SOFT_UNSUPPORTED = 7, /* not on this backend or this system */
  SOFT_DEVICE_LOST = 8, /* and whatever comes later fails likewise */
  SOFT_CANCELED = 9,    /* `begin` returned false */
} soft_outcome;

/* Capabilities, or-ed. */
enum {
  SOFT_UNIFIED = 1,       /* shared memory is the device's own: nothing is copied or migrated */
  SOFT_IMPORTS = 2,       /* buffer_import takes the host's memory and read-only mappings of files */
  SOFT_PACKS_WEIGHTS = 4, /* weights may be kept in a layout of the backend's own */
  SOFT_TEXTURES = 8,      /* kernels may take textures and samplers */
  SOFT_INDIRECT = 16,     /* dispatches may have their grid in a buffer */
};

/* Fixed while the backend is open. */
typedef struct soft_capabilities {
  size_t size;            /* of this struct, set by the caller */
  const char *name;       /* "AMD EPYC …", "NVIDIA H100"; lives as long as the backend */
  uint64_t memory;        /* of the device; bytes, as all that follow */
  uint64_t working_set;   /* that buffers in use should not exceed */
  uint64_t max_buffer_length;
  uint64_t page_size;     /* of the host: imported memory is aligned to it, and buffers are charged by it */
  uint32_t max_threads_per_threadgroup;
  uint32_t max_threadgroup_memory;
  uint32_t simd_width;
  uint32_t flags;
  uint32_t cores; /* each of which holds several threadgroups at a time; 0: that is not how kernels are executed */
} soft_capabilities;

/* SHARED: has contents, which the host reads and writes while no submission in flight uses the buffer. PRIVATE: none.
 * WEIGHTS: none either; bound only as b of a matrix product and as table of an embedding (native/kernels/args.h), and
 * written by weights_write alone. A matrix is complete before the first submission that uses it, and never changes
 * after. So a backend may keep it in a layout of its own, and may read it before the commands in front have ended. */
typedef enum soft_storage { SOFT_SHARED = 0, SOFT_PRIVATE = 1, SOFT_WEIGHTS = 2 } soft_storage;

/* A matrix in a buffer of weights: `rows` rows of `width` elements, without gaps in the plain layout. `dtype` is an
 * iron_dtype. */
typedef struct soft_matrix {
  uint64_t offset; /* of its first row, as if all before it lay in the plain layout */
  uint64_t rows, width;
  uint32_t dtype;
} soft_matrix;

/* A function constant's value, as MTLFunctionConstantValues gives it. `type` is an MTLDataType. */
typedef struct soft_constant {
  const char *name; /* NULL: by index */
  uint32_t index;
  uint32_t type;
  uint8_t value[32];
} soft_constant;

/* Of function_parameters. */
#define SOFT_UNKNOWN UINT32_MAX

typedef struct soft_function_info {
  uint32_t max_total_threads_per_threadgroup;
  uint32_t thread_execution_width;
  uint32_t static_threadgroup_memory; /* bytes */
} soft_function_info;

/* PARAMETER_BUFFER: a buffer or bytes; PARAMETER_THREADGROUP: threadgroup memory of a length. */
typedef enum soft_parameter_kind {
  SOFT_PARAMETER_BUFFER = 0,
  SOFT_PARAMETER_THREADGROUP = 1,
  SOFT_PARAMETER_TEXTURE = 2,
  SOFT_PARAMETER_SAMPLER = 3,
} soft_parameter_kind;

/* What a kernel takes a texture's components for. */
typedef enum soft_value { SOFT_VALUE_FLOAT = 0, SOFT_VALUE_UINT = 1, SOFT_VALUE_SINT = 2 } soft_value;

/* What a kernel wants bound. */
typedef struct soft_parameter {
  uint32_t index;
  soft_parameter_kind kind;
  uint64_t size;      /* the least bytes: of what the pointer or reference refers to */
  uint64_t alignment; /* of the address */
  bool readable, writable; /* by the type of the parameter */
  uint32_t texture_type;   /* of a texture: an MTLTextureType */
  soft_value value;        /* the same */
} soft_parameter;

/* One entry of a dispatch's argument table. */
typedef struct soft_binding {
  soft_buffer *buffer; /* NULL: `bytes` */
  const void *bytes;   /* what setBytes copied; NULL, too: nothing is bound */
  uint64_t offset;     /* into the buffer; 0 for bytes */
  uint64_t length;     /* from the offset to the end of the buffer, or of the bytes */
} soft_binding;

/* How a texture's components are stored: of sRGB the fourth is UNORM. */
typedef enum soft_component {
  SOFT_UNORM = 0,
  SOFT_SNORM = 1,
  SOFT_SRGB = 2,
  SOFT_FLOAT = 3,
  SOFT_UINT = 4,
  SOFT_SINT = 5,
} soft_component;

/* A texture: texels in rows, rows in slices (elements of an array, or planes), slices in levels. Of several levels each
 * lies behind the one before, all without gaps. */
typedef struct soft_texture {
  soft_buffer *buffer; /* NULL: nothing is bound */
  uint64_t offset, length; /* into the buffer; bytes of all levels */
  uint64_t row_bytes, slice_bytes; /* from one to the next, of the first level */
  uint32_t width, height, depth, array_length, levels;
  uint32_t type; /* MTLTextureType */
  soft_component component;
  uint8_t component_bytes, components; /* 1, 2 or 4 */
  bool is_bgra;
} soft_texture;

/* The values of an MTLSamplerDescriptor. */
typedef struct soft_sampler {
  bool bound; /* false: nothing is */
  bool pixels; /* coordinates count texels, and are not normalized */
  uint8_t address[3], magnify, minify, mip, border, compare;
  float lod_min, lod_max;
} soft_sampler;

typedef struct soft_dispatch {
  const soft_function *function;
  const soft_binding *bindings;       /* by buffer index */
  const uint32_t *threadgroup_memory; /* bytes, by threadgroup index */
  uint32_t binding_count, threadgroup_memory_count;
  const soft_texture *textures; /* by texture index */
  const soft_sampler *samplers; /* by sampler index */
  uint32_t texture_count, sampler_count;
  uint32_t grid[3];        /* threadgroups, or threads when `threads` is set */
  uint32_t threadgroup[3]; /* threads per threadgroup */
  bool threads;            /* dispatchThreads: the last threadgroup of a row may be smaller */
  /* NULL, or where the grid is, instead of `grid`: three uint32_t of threadgroups, read when all commands in front have
   * ended. One that is 0: nothing runs. */
  soft_buffer *indirect;
  uint64_t indirect_offset; /* a multiple of 4, 12 bytes before the end at least */
} soft_dispatch;

typedef struct soft_copy {
  soft_buffer *source, *destination; /* ranges that do not overlap */
  uint64_t source_offset, destination_offset, length;
} soft_copy;

typedef struct soft_fill {
  soft_buffer *destination;
  uint64_t offset, length;
  uint8_t value;
} soft_fill;

typedef enum soft_command_kind { SOFT_DISPATCH = 0, SOFT_COPY = 1, SOFT_FILL = 2 } soft_command_kind;

typedef struct soft_command {
  soft_command_kind kind;
  bool concurrent; /* may overlap the command before it: a concurrent encoder, and no barrier between the two */
  union {
    soft_dispatch dispatch;
    soft_copy copy;
    soft_fill fill;
  };
} soft_command;

typedef struct soft_chunk {
  const struct soft_chunk *next;
  size_t count;
  soft_command commands[SOFT_COMMANDS_PER_CHUNK];
} soft_chunk;

typedef struct soft_result {
  soft_outcome outcome; /* of the first command that failed; those behind it did not run, or it does not matter */
  const char *text;     /* NULL, or a sentence, until the callback returns */
  uint64_t start, end;  /* of the execution */
} soft_result;

/* A list of commands. The struct is copied; the chunks and all that they point to, buffers and functions among it, stay
 * valid and unchanged until `complete`. */
typedef struct soft_submission {
  const soft_chunk *commands; /* NULL: none */
  void *context;
  /* NULL, or called once, before the first command runs and after the `begin` of the submission in front. False: no
   * command runs, and the outcome is SOFT_CANCELED. A backend that sees NULL may start at once, even inside
   * `stream_submit`. */
  bool (*begin)(void *context);
  /* Called once, after the `complete` of the submission in front. It may release buffers, functions and the stream. */
  void (*complete)(void *context, const soft_result *result);
} soft_submission;

/* Of stream_submit: the caller calls stream_help next, so no thread needs to be woken. */
enum { SOFT_WILL_HELP = 1 };

typedef struct soft_backend_table {
  size_t size;
  uint32_t version;

  /* Releases the backend; whatever was made of it is released before. */
  void (*release)(soft_backend *backend);
  void (*capabilities)(soft_backend *backend, soft_capabilities *capabilities);
  /* What it found on this machine, in lines of "key: value"; from malloc, NULL: there is no memory. */
  char *(*report)(soft_backend *backend);
  /* For how long a waiting thread may spin now before it sleeps. 0: not at all. */
  uint64_t (*wait_budget)(soft_backend *backend);

  /* Zeroed memory. */
  soft_outcome (*buffer_create)(soft_backend *backend, uint64_t length, soft_storage storage, soft_buffer **buffer,
                                char **text);
  /* Memory of the host's, in whole pages, that outlives the buffer; as SOFT_SHARED. */
  soft_outcome (*buffer_import)(soft_backend *backend, void *pages, uint64_t length, bool read_only,
                                soft_buffer **buffer, char **text);
  /* No submission in flight uses it. */
  void (*buffer_release)(soft_buffer *buffer);
  uint64_t (*buffer_address)(soft_buffer *buffer);
  void *(*buffer_contents)(soft_buffer *buffer); /* NULL: not shared */
  /* A hint, before the first touch: the buffer is written as a whole and read often. */
  void (*buffer_expect_reads)(soft_buffer *buffer);
  /* Gives the memory back, with its contents, and keeps the address; the next use finds zeroes. */
  soft_outcome (*buffer_discard)(soft_buffer *buffer, char **text);

  /* Writes `count` rows from row `first` of a matrix, `length` bytes in the plain layout. `first` is the number of rows
   * written so far and a multiple of SOFT_WEIGHT_ROWS, and so is `count`, unless it ends the matrix. The matrix is the
   * same in each call and overlaps no other; one thread at a time writes it, while others may write other matrices, and
   * submissions use those that are complete.
   *
   * A dispatch binds weights at the offset that they have in the plain layout, and its arguments describe the plain
   * layout, too: rows without gaps, of one dtype and width, that begin at a multiple of SOFT_WEIGHT_ROWS in a matrix
   * and end at one or with a matrix. Matrices of one dtype and width that lie end to end, each but the last with a
   * multiple of SOFT_WEIGHT_ROWS rows, may be used as one. */
  soft_outcome (*weights_write)(soft_buffer *buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                const void *rows, uint64_t length, char **text);
  /* Reads rows back in the plain layout, any that were written. */
  soft_outcome (*weights_read)(soft_buffer *buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                               void *rows, uint64_t length, char **text);

  /* Compiles Metal source (UTF-8, not terminated). SOFT_INVALID: the source is wrong; SOFT_UNSUPPORTED: this backend or
   * system cannot compile it. */
  soft_outcome (*module_create)(soft_backend *backend, const char *source, size_t length, soft_module **module,
                                char **text);
  void (*module_release)(soft_module *module);
  /* The name of kernel `index`, or NULL past the last one. Lives as long as the module. */
  const char *(*module_function_name)(const soft_module *module, size_t index);
  soft_outcome (*function_create)(soft_module *module, const char *name, const soft_constant *constants,
                                  size_t constant_count, soft_function **function, char **text);
  void (*function_release)(soft_function *function);
  void (*function_describe)(const soft_function *function, soft_function_info *info);
  /* Writes what the kernel wants bound, and returns how many that are; SOFT_UNKNOWN: this backend does not know. */
  uint32_t (*function_parameters)(const soft_function *function, soft_parameter parameters[SOFT_MAX_PARAMETERS]);

  soft_outcome (*stream_create)(soft_backend *backend, soft_stream **stream, char **text);
  /* Waits for what was submitted, unless it is called in a callback of this stream. */
  void (*stream_release)(soft_stream *stream);
  /* A ticket, greater than those before. Failures come through `complete`. The caller keeps the order of submissions:
   * one thread at a time. */
  uint64_t (*stream_submit)(soft_stream *stream, const soft_submission *submission, uint32_t flags);
  /* Gives the device what was submitted, as far as that takes no waiting. Called after stream_submit, without the locks
   * that callbacks take. */
  void (*stream_start)(soft_stream *stream);
  /* For a thread that waits without a timeout: executes or completes submissions up to `ticket` on the calling thread.
   * May return before they are complete: when another thread is at it, when a kernel needs a thread of the backend's,
   * or when there is nothing that a caller could do. Whatever it leaves, another thread sees to. */
  void (*stream_help)(soft_stream *stream, uint64_t ticket);
} soft_backend_table;

/* How many devices the backend of this name has here; 0: no backend of this build has that name. */
uint32_t soft_backend_count(const char *name);

/* Opens a backend. `which` is its name, and after a colon what it is to be like: "cpu", "nvidia:1",
 * "cpu:kernels=msl,order=reverse". SOFT_UNSUPPORTED: no backend of this build has that name; SOFT_INVALID: the rest is
 * wrong. */
soft_outcome soft_backend_open(const char *which, soft_backend **backend, const soft_backend_table **table,
                               char **text);

#ifdef __cplusplus
}
#endif
#endif
