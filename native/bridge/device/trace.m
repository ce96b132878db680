#import "trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach/mach.h>
#endif

#include "diagnostics.h"
#import "base/entry.h"
#import "base/environment.h"
#import "base/handle.h"
#import "base/text.h"

_Atomic(int) IronTraceListeners;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the hook */
static iron_trace_callback trace_hook;
static void *hook_context;
static _Atomic(int) trace_file = -1;

#pragma mark Listeners

static void open_trace(void) {
  const char *path = IronEnvironment()->trace;
  if (!path) return;
  int file = strcmp(path, "1") == 0 ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    fprintf(stderr, "ironbridge: IRONBRIDGE_MEM_TRACE: cannot write to %s\n", path);
    return;
  }
  atomic_store(&trace_file, file);
  atomic_fetch_add(&IronTraceListeners, 1);
}

void IronTraceStart(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_trace);
}

iron_status iron_trace_hook(iron_trace_callback hook, void *context) {
  IronLeafLock(&lock);
  int change = (hook != NULL) - (trace_hook != NULL);
  trace_hook = hook;
  hook_context = context;
  atomic_fetch_add(&IronTraceListeners, change);
  IronLeafUnlock(&lock);
  return IRON_OK;
}

void IronTraceForget(void) { pthread_mutex_init(&lock, NULL); }

#pragma mark Figures

#ifdef __APPLE__

static uint64_t resident_bytes(void) {
  struct mach_task_basic_info info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &count) != KERN_SUCCESS) return 0;
  return info.resident_size;
}

#else

/* proc(5): the second number of statm, in pages. The file stays open: reading it again is one call. */
static uint64_t resident_bytes(void) {
  static _Atomic(int) statm = -1;
  int file = atomic_load(&statm);
  if (file < 0) {
    file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    int none = -1;
    if (file >= 0 && !atomic_compare_exchange_strong(&statm, &none, file)) {
      close(file);
      file = none;
    }
  }
  char text[128];
  ssize_t length = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char *resident = strchr(text, ' ');
  return resident ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

#endif

/* "matmul" of "iron_encode_matmul". */
static const char *operation_name(void) {
  static const char prefix[] = "iron_encode_";
  const char *function = IronErrorFunction();
  return strncmp(function, prefix, sizeof prefix - 1) == 0 ? function + sizeof prefix - 1 : function;
}

static iron_trace_event event_of(IronDevice *device, IronLocation location, const char *shape) {
  iron_trace_event event = {.size = sizeof event,
                            .operation = operation_name(),
                            .shape = shape,
                            .file = location.file,
                            .file_length = location.length,
                            .line = location.line,
                            .resident_bytes = resident_bytes(),
                            .live_handles = IronHandleLiveCount(),
                            .autoreleased = IronAutoreleased(),
                            .autoreleased_without_pool = IronAutoreleasedWithoutPool()};
  IronMonitorLock(&device->monitor);
  event.device_bytes = [device->metal currentAllocatedSize];
  event.active_bytes = device->memory.active.bytes;
  event.pool_bytes = device->pool.bytes;
  event.pool_buffers = device->pool.buffers;
  event.command_buffers = device->open + device->in_flight;
  IronMonitorUnlock(&device->monitor);
  return event;
}

#pragma mark Events

static void write_line(int file, const iron_trace_event *event) {
  char line[768], place[256];
  IronTextEscape(place, sizeof place, event->file ? event->file : "-", event->file ? event->file_length : 1);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int length = snprintf(line, sizeof line,
                        "%lld.%06ld %s:%u %s %s rss=%" PRIu64 " device=%" PRIu64 " active=%" PRIu64 " pool=%" PRIu64
                        " pool_buffers=%" PRIu64 " handles=%" PRId64 " command_buffers=%" PRIu64
                        " autoreleased=%" PRId64 " unpooled=%" PRId64 "\n",
                        (long long)now.tv_sec, now.tv_nsec / 1000, place, event->line, event->operation,
                        *event->shape ? event->shape : "-", event->resident_bytes, event->device_bytes,
                        event->active_bytes, event->pool_bytes, event->pool_buffers, event->live_handles,
                        event->command_buffers, event->autoreleased, event->autoreleased_without_pool);
  if (length >= (int)sizeof line) {
    length = sizeof line;
    line[length - 1] = '\n';
  }
  /* One call a line: those of several threads and processes do not mix. What cannot be written is lost. */
  ssize_t written = write(file, line, (size_t)length);
  (void)written;
}

void IronTraceOperation(IronDevice *device, IronLocation location, const char *shape) {
  iron_trace_event event = event_of(device, location, shape);
  int file = atomic_load(&trace_file);
  if (file >= 0) write_line(file, &event);
  IronLeafLock(&lock);
  iron_trace_callback hook = trace_hook;
  void *context = hook_context;
  IronLeafUnlock(&lock);
  if (hook) hook(&event, context);
}
