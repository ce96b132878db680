/* The contract between a compiled library and the executor that runs its kernels on the CPU: what a thread can know
 * about itself, and the few things that it must ask for. src/backend/cpu/msl/abi.rs mirrors these structs; msl_kernel
 * carries their sizes, so that a mismatch is an error at load time and not a wrong number. */
#ifndef MSL_ABI_H
#define MSL_ABI_H

enum {
  MSL_BUFFERS = 31,          /* Metal's buffer argument table */
  MSL_SIMD_WIDTH = 32,
  MSL_SLOT = 16,             /* bytes that a thread can give to one SIMD-group operation */
  MSL_STACK = 256 * 1024,    /* bytes of a fiber's stack, and their alignment */
  MSL_TEXTURES = 128,        /* Metal's argument tables of textures and samplers */
  MSL_SAMPLERS = 16,
  MSL_LINE = 64,             /* bytes of device memory that a counted access reads or writes as a whole */
};

struct msl_lane;

/* What the last thread of a SIMD-group to arrive at an operation runs for all of them. `lanes` has a bit for each
 * thread that takes part. */
typedef void (*msl_combine)(unsigned char *area, unsigned lanes);

/* What a thread asks its executor for. `site` names the place in the source: line * 1024 + column. */
struct msl_runtime {
  /* Returns when every thread of the threadgroup has called it. */
  void (*threadgroup_barrier)(msl_lane *lane, unsigned site);
  /* Returns when every thread of the SIMD-group that has not returned from the kernel has called it and `combine`, when
   * there is one, has run. */
  void (*simd_barrier)(msl_lane *lane, msl_combine combine, unsigned site);
  /* An access outside everything that the thread may touch. Does not return. */
  void (*out_of_bounds)(msl_lane *lane, unsigned long address, unsigned long size, bool write);
  /* An index beyond an array of the type that the compiler names. Does not return. */
  void (*out_of_array)(msl_lane *lane, long index, const char *type, unsigned line);
};

struct msl_binding {
  unsigned char *pointer;
  unsigned long length;
};

/* How a component is stored. Unsigned and signed normalized ones are fractions of their largest value. Of sRGB the
 * first three are encoded, and the fourth is UNORM. */
enum msl_component { MSL_UNORM, MSL_SNORM, MSL_SRGB, MSL_FLOAT, MSL_UINT, MSL_SINT };

/* A texture with all its levels, each half as large as the one before. Of several levels each lies behind the one
 * before, without gaps; the distances between rows and slices are those of the first, and of a single one. */
struct msl_texture {
  unsigned char *texels;       /* NULL: nothing is bound */
  unsigned long length;        /* bytes, of all levels */
  unsigned long row_bytes;
  unsigned long slice_bytes;   /* from one plane, face or element of the array to the next */
  unsigned width, height, depth;
  unsigned slices;             /* elements of the array; six for each cube */
  unsigned levels;
  unsigned type;               /* MTLTextureType */
  unsigned char component;     /* msl_component */
  unsigned char component_bytes;
  unsigned char components;    /* 1, 2 or 4 */
  unsigned char is_bgra;
};

/* Members have the values of MTLSamplerDescriptor. */
struct msl_sampler {
  unsigned char bound; /* 0: nothing is */
  unsigned char pixels; /* coordinates count texels, and are not normalized */
  unsigned char address[3], magnify, minify, mip, border, compare;
  float lod_min, lod_max;
};

/* One SIMD-group. Threads write their operands to area[operations & 1] before simd_barrier and read the others' after
 * it: a thread can be one operation ahead of another, never two. */
struct msl_simdgroup {
  alignas(64) unsigned char area[2][MSL_SIMD_WIDTH * MSL_SLOT];
  unsigned operations; /* completed */
  unsigned lanes;      /* that took part in the last one */
};

/* In counting mode: device memory that a kernel reaches by one buffer or by several, and a byte for each of its lines
 * that was read, and for each that was written. The first line is the one that `start` lies in. */
struct msl_extent {
  unsigned long start, length;
  unsigned char *read, *written;
};

/* In counting mode: the bytes that the threads of one worker's threadgroups asked for. */
struct msl_counts {
  const msl_extent *extents;
  unsigned long extent_count;
  unsigned long threadgroup_start, threadgroup_length; /* threadgroup memory */
  unsigned long loaded, stored;                        /* of device memory */
  unsigned long threadgroup_loaded, threadgroup_stored;
};

/* What the threads of one threadgroup share. */
struct msl_group {
  const msl_runtime *runtime;
  const msl_binding *bindings;         /* MSL_BUFFERS */
  unsigned char *const *threadgroup;   /* MSL_BUFFERS: threadgroup memory by argument index */
  const msl_texture *textures;         /* MSL_TEXTURES */
  const msl_sampler *samplers;         /* MSL_SAMPLERS */
  unsigned char *variables;            /* memory of the kernel's own threadgroup variables */
  const msl_binding *accessible;       /* in validation mode: every range that a kernel may touch, besides its stack */
  msl_counts *counts;                  /* NULL: nothing is counted */
  unsigned accessible_count;
  unsigned position[3];                /* threadgroup_position_in_grid */
  unsigned threads[3];                 /* of this threadgroup, which may be a partial one */
  unsigned dispatched_threads[3];      /* of a whole threadgroup */
  unsigned groups[3];                  /* threadgroups_per_grid */
  unsigned grid[3];                    /* threads_per_grid */
  unsigned simdgroups;                 /* of this threadgroup */
  unsigned dispatched_simdgroups;      /* of a whole threadgroup */
};

/* One thread. A pointer to it lies in the top word of the stack that it runs on, which is how code below a kernel finds
 * it without thread-local storage: that would limit a process to some seventy libraries. */
struct msl_lane {
  const msl_group *group;
  msl_simdgroup *simdgroup;
  unsigned position[3]; /* thread_position_in_threadgroup */
  unsigned index;       /* thread_index_in_threadgroup */
};

enum msl_argument_kind {
  MSL_ARGUMENT_NONE,
  MSL_ARGUMENT_BUFFER,
  MSL_ARGUMENT_THREADGROUP,
  MSL_ARGUMENT_TEXTURE,
  MSL_ARGUMENT_SAMPLER,
};

/* What a kernel takes a texture's components for. */
enum msl_value { MSL_VALUE_FLOAT, MSL_VALUE_UINT, MSL_VALUE_SINT };

struct msl_argument {
  unsigned kind;
  unsigned index;
  unsigned long size;      /* bytes that must be bound at least: sizeof the referenced type, 0 for a pointer */
  unsigned long alignment; /* of the type that it points to */
  unsigned long writable;  /* whether that type is not const; of a texture: whether it is written */
  /* Of textures and samplers: how many, from `index` on. Of textures: MTLTextureType, msl_value, whether they are
   * read. */
  unsigned count, type, value, readable;
};

/* The one symbol of a compiled library: `msl_kernel`. */
struct msl_kernel {
  unsigned lane_size, group_size, simdgroup_size;
  unsigned max_total_threads;
  unsigned argument_count;
  const msl_argument *arguments;
  const unsigned char *variables_start, *variables_end; /* as far apart as the kernel's threadgroup variables need */
  void (*run)(msl_lane *lane);
};

#endif
