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
};

struct msl_binding {
  unsigned char *pointer;
  unsigned long length;
};

/* One SIMD-group. Threads write their operands to area[operations & 1] before simd_barrier and read the others' after
 * it: a thread can be one operation ahead of another, never two. */
struct msl_simdgroup {
  alignas(64) unsigned char area[2][MSL_SIMD_WIDTH * MSL_SLOT];
  unsigned operations; /* completed */
  unsigned lanes;      /* that took part in the last one */
};

/* What the threads of one threadgroup share. */
struct msl_group {
  const msl_runtime *runtime;
  const msl_binding *bindings;         /* MSL_BUFFERS */
  unsigned char *const *threadgroup;   /* MSL_BUFFERS: threadgroup memory by argument index */
  unsigned char *variables;            /* memory of the kernel's own threadgroup variables */
  const msl_binding *accessible;       /* in validation mode: every range that a kernel may touch, besides its stack */
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

enum msl_argument_kind { MSL_ARGUMENT_NONE, MSL_ARGUMENT_BUFFER, MSL_ARGUMENT_THREADGROUP };

struct msl_argument {
  unsigned kind;
  unsigned index;
  unsigned long size;      /* bytes that must be bound at least: sizeof the referenced type, 0 for a pointer */
  unsigned long alignment; /* of the type that it points to */
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
