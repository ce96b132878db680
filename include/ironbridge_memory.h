/* What a device's memory is used for: figures, limits, leaks, and a trace of operations. Beside ironbridge.h, whose
 * rules on handles, threads, errors, sizes and units hold here, too.
 *
 * Experimental: any version may change what is declared here. IRON_ABI_VERSION grows then.
 *
 * C11 or C++17. */
#ifndef IRONBRIDGE_MEMORY_H
#define IRONBRIDGE_MEMORY_H

#include "ironbridge.h"

#ifdef IRON_STABLE_ONLY
#error "ironbridge_memory.h is experimental as a whole, and IRON_STABLE_ONLY is defined"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ figures and settings -- */

/* Bytes, and how many buffers or objects have them. It never gets another field. */
typedef struct iron_memory_usage {
  uint64_t bytes;
  uint64_t count;
} iron_memory_usage;

/* The length of arrays by iron_category. It never changes; categories that are not there yet are 0. */
#define IRON_CATEGORY_CAPACITY 16

typedef struct iron_memory_info {
  size_t size;
  uint64_t device_bytes; /* the device's own currentAllocatedSize */
  uint64_t active_bytes; /* in buffers that somebody holds or commands use */
  uint64_t peak_bytes;   /* the most active_bytes has been since the device was opened or the peak reset */
  uint64_t pool_bytes;   /* idle in the pool */
  uint64_t pool_buffers;
  uint64_t pool_hits, pool_misses;
  uint64_t in_flight;    /* command buffers submitted and not complete */
  /* by iron_category, category_count of them in use; wrapped memory counts where its owner put it */
  iron_memory_usage categories[IRON_CATEGORY_CAPACITY];
  uint64_t category_count;
  uint64_t active_buffers, peak_buffers;
  uint64_t pool_bypasses;  /* pooled requests that were too large, or weights: neither hits nor misses */
  uint64_t pool_evictions; /* idle buffers given back because there were too many or too much of them */
  uint64_t pool_expired;   /* because their idle time was over */
  uint64_t pool_purged;    /* because somebody asked, or memory ran short */
  uint64_t allocations, releases; /* buffers made and given back, pooled ones each time */
  uint64_t operations;      /* recorded */
  uint64_t command_buffers; /* submitted */
  /* The sum of `categories` + rounding_bytes - empty_bytes + unaccounted_bytes is device_bytes. */
  uint64_t rounding_bytes;  /* what the device adds to buffers, to make whole pages of them */
  uint64_t empty_bytes;     /* idle under IRON_IDLE_EMPTY: the device does not count them */
  /* what others have on the device: 0 for the software device when nothing is being made or released */
  int64_t unaccounted_bytes;
  iron_memory_usage baseline[IRON_CATEGORY_CAPACITY]; /* `categories` when the baseline was set; 0 at first */
} iron_memory_info;
IRON_API iron_status iron_memory_describe(iron_device *device, iron_memory_info *info);

enum {
  IRON_RESET_PEAK = 1,     /* the peaks are what is active now */
  IRON_RESET_BASELINE = 2, /* the baseline is what is allocated now */
  /* hits, misses, bypasses, evictions, expired, purged, operations and command buffers start at 0 */
  IRON_RESET_COUNTERS = 4
};
/* `what`: any of the above, added. */
IRON_API iron_status iron_memory_reset(iron_device *device, uint32_t what);

/* Those of iron_device_options that can change while the device is open, under the same names and with the same
 * meanings. 0: as it is. */
typedef struct iron_memory_settings {
  size_t size;
  uint64_t pool_max_bytes;
  uint32_t pool_max_buffers;
  uint32_t pool_policy; /* iron_idle_policy */
  uint64_t pool_max_buffer_bytes;
  uint64_t pool_idle_time;
  uint64_t memory_limit;
} iron_memory_settings;
/* Takes effect at once: idle memory beyond the new limits goes back to the system. */
IRON_API iron_status iron_memory_configure(iron_device *device, const iron_memory_settings *settings);
/* The settings as iron_memory_configure takes them. */
IRON_API iron_status iron_memory_configuration(iron_device *device, iron_memory_settings *settings);

typedef enum iron_reclaim {
  IRON_RECLAIM_SYNC = 1,   /* waits for all work: what only that kept is given back */
  IRON_RECLAIM_PURGE = 2,  /* gives idle memory back to the system (Empty, then release) and waits for nothing */
  IRON_RECLAIM_CLEANUP = 3 /* both, and resets the counters and peaks */
} iron_reclaim;
typedef struct iron_reclaimed {
  size_t size;
  uint64_t device_before, device_after; /* the device's currentAllocatedSize */
  uint64_t freed_bytes;                 /* the difference, 0 when others allocated more meanwhile */
  uint64_t buffers;                     /* idle ones given back */
  uint64_t command_buffers;             /* waited for */
  uint64_t buffer_bytes;                /* of the idle buffers given back */
} iron_reclaimed;
/* `timeout` is the wait's, in nanoseconds; when it passes first the rest is done and IRON_ERROR_TIMEOUT returned.
 * Failures of the work waited for are left to iron_commands_wait and iron_device_sync. `reclaimed` may be NULL. */
IRON_API iron_status iron_memory_reclaim(iron_device *device, iron_reclaim what, uint64_t timeout,
                                         iron_reclaimed *reclaimed);

/* One live buffer, idle ones of the pool apart. */
typedef struct iron_allocation {
  size_t size;
  uint64_t bytes;
  uint32_t category;   /* iron_category */
  uint32_t storage;    /* iron_storage */
  const char *label;   /* "" when it has none */
  const char *file;    /* where it was made (iron_source); NULL: nobody said */
  size_t file_length;  /* its bytes: it need not end with a NUL */
  uint32_t line;
  uint32_t pooled, wrapped; /* 0 or 1 */
  uint32_t in_use;     /* 0 or 1: by commands that are recorded or in flight, or by a map */
  uint64_t references; /* of its handle; 0: only commands keep it */
  uint64_t age;        /* nanoseconds since it was made */
} iron_allocation;
/* `allocation` and its texts are valid during the call only. It may call ironbridge. */
typedef void (*iron_allocation_callback)(const iron_allocation *allocation, void *context);
/* Calls `visit` for each live buffer of the device, the largest first. */
IRON_API iron_status iron_memory_list(iron_device *device, iron_allocation_callback visit, void *context);

/* Bytes that may be left over without a word. */
#define IRON_LEAK_THRESHOLD (1u << 20)
/* What was still allocated on a device when it was closed or the process ended. */
struct iron_leaks {
  size_t size;
  const char *device; /* its name */
  uint32_t at_exit;   /* 0 or 1 */
  uint64_t device_before, device_after; /* the device's currentAllocatedSize before and after the purge */
  uint64_t freed_bytes;                 /* the difference */
  uint64_t leaked_bytes, leaked_count;  /* live buffers, idle ones of the pool apart */
  /* leaked_count of them, the largest first, each allocations->size bytes after the last */
  const iron_allocation *allocations;
};
typedef void (*iron_leak_callback)(const iron_leaks *leaks, void *context);
/* Leaks beyond the threshold are told to `hook`, once for each device, instead of stderr. NULL: to stderr again. It is
 * called by iron_device_close and, for devices that are open then, when the process exits. A device that closes because
 * nobody has any of it any more has leaked nothing. */
IRON_API iron_status iron_leak_hook(iron_leak_callback hook, void *context);

/* One recorded operation, and the memory after it. */
typedef struct iron_trace_event {
  size_t size;
  const char *operation; /* "matmul" */
  const char *shape;     /* "a=784x100 b=100x10 c=784x10" */
  const char *file;      /* where it was recorded (iron_source); NULL: nobody said */
  size_t file_length;
  uint32_t line;
  uint64_t resident_bytes; /* of the process */
  uint64_t device_bytes, active_bytes, pool_bytes, pool_buffers;
  uint64_t command_buffers; /* recorded or in flight */
  int64_t live_handles;
  /* objects that wait in the pools of this thread; -1 where the runtime cannot tell (Apple's) */
  int64_t autoreleased;
  int64_t autoreleased_without_pool;
} iron_trace_event;
typedef void (*iron_trace_callback)(const iron_trace_event *event, void *context);
/* Tells `hook` of every operation, on the thread that recorded it; NULL ends that. It must not call ironbridge. */
IRON_API iron_status iron_trace_hook(iron_trace_callback hook, void *context);

/* Process-wide figures about the bridge itself. */
typedef struct iron_diagnostics {
  size_t size;
  int64_t live_handles;               /* handles given out and not given back, of all kinds */
  int64_t live_objects;               /* Objective-C objects of ironbridge's own classes */
  int64_t autoreleased_without_pool;  /* since the start; -1 where the runtime cannot tell (Apple's) */
} iron_diagnostics;
IRON_API iron_status iron_diagnose(iron_diagnostics *diagnostics);
/* Calls `visit` once for each of ironbridge's Objective-C classes with the number of its live objects. */
typedef void (*iron_live_objects_callback)(const char *class_name, int64_t live, void *context);
IRON_API iron_status iron_live_objects(iron_live_objects_callback visit, void *context);

#ifdef __cplusplus
}
#endif
#endif
