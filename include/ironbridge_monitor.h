/* What a process that uses ironbridge tells about its memory: the layout of one small record that others may read as
 * a file.
 *
 * Where. The first device that a process opens makes the file PID-START in a folder of the user's own (mode 0700, owner
 * checked; a folder that fails the check is not used, and nothing is published):
 *   $IRONBRIDGE_PUBLISH        when it is set to an absolute path; "0" publishes nothing at all
 *   $XDG_RUNTIME_DIR/ironbridge   when XDG_RUNTIME_DIR is set and that folder can be made
 *   /tmp/ironbridge-UID
 * PID is the process, START its start_time below, both in decimal. The path goes when the process exits.
 *
 * What is there. On Linux a link, /proc/PID/fd/N, to a memfd with the name ironbridge-PID-START that is sealed
 * against shrinking; elsewhere, and where memfd_create fails or the process is not dumpable, a plain file of mode
 * 0600 that the process writes to. Open the path and read; do not map a plain file, which anybody of the user may
 * truncate. Neither a full disk nor a truncated record has any effect on the process but that its figures are
 * missing. A program that closes descriptors that it did not open ends its publication.
 *
 * Who is alive. A process that was killed leaves its file. It is gone when no process PID exists or when that one's
 * start time is not START: compare with field 22 of /proc/PID/stat on Linux, with p_starttime of sysctl KERN_PROC_PID
 * in microseconds on a Mac. Whoever finds such a file may unlink it.
 *
 * How to read. All fields are in the machine's byte order. Check `magic`, `version` and the sizes; strides come from
 * the file and not from this header. A device's slot is in use while its `opened_at` is not 0. Its figures are written
 * by the bridge between two steps of `sequence`: read it, and when it is even read the figures and then it again; they
 * belong together when it is the same. `operations` and `baseline_bytes` stand outside that and are read by themselves.
 *
 * What a reader may write: `baseline_bytes` (what "delta" is counted from) and, with an atomic OR,
 * IRON_PUBLISHED_RESET_PEAK to `requests`, which the bridge takes up with the device's next allocation or release.
 *
 * Units: bytes, nanoseconds. C11 or C++17. */
#ifndef IRONBRIDGE_MONITOR_H
#define IRONBRIDGE_MONITOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IRON_PUBLISHED_MAGIC 0x4e4f5249u /* "IRON" in a little-endian file; written last */
#define IRON_PUBLISHED_VERSION 1u
/* Devices that one process publishes; those beyond are counted in `unpublished`. */
#define IRON_PUBLISHED_DEVICES 64u
#define IRON_PUBLISHED_RESET_PEAK 1u

/* One open device. */
typedef struct iron_published_device {
  uint64_t sequence;         /* odd while the figures change */
  uint64_t opened_at;        /* since the epoch; 0: the slot is free, and all else means nothing */
  uint32_t kind;             /* iron_device_kind */
  uint32_t index;            /* in the list of devices */
  char name[64];             /* NUL-terminated UTF-8, cut to fit */
  uint64_t memory_limit;     /* UINT64_MAX: none */
  uint64_t active_bytes;     /* in buffers that somebody holds or commands use */
  uint64_t active_buffers;
  uint64_t cached_bytes;     /* idle in the pool */
  uint64_t cached_buffers;
  uint64_t peak_bytes;       /* the most active_bytes has been since the peak was last reset */
  uint64_t allocations;      /* buffers made so far, pooled ones each time */
  uint64_t releases;         /* of those, given back */
  uint64_t pool_hits, pool_misses;
  uint64_t operations;       /* recorded so far: the rate is the difference of two readings */
  uint64_t baseline_bytes;   /* active_bytes when the baseline was set; 0 at first */
  uint64_t requests;         /* IRON_PUBLISHED_RESET_PEAK, from a reader */
} iron_published_device;

/* The file: this, and `device_slots` devices from `device_offset` on, each `device_size` bytes after the last. */
typedef struct iron_published_process {
  uint32_t magic, version;
  uint32_t device_offset, device_size, device_slots;
  uint32_t unpublished; /* devices that found no free slot, open now */
  uint64_t pid;
  uint64_t start_time;  /* of the process, in the system's own unit: see above */
  uint64_t published_at;/* since the epoch */
  char program[64];     /* the executable's name, NUL-terminated, cut to fit */
} iron_published_process;

#ifdef __cplusplus
}
#endif
#endif
