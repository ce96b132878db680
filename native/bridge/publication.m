#include "publication.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "environment.h"
#include "text.h"

typedef struct File {
  iron_published_process process;
  iron_published_device devices[IRON_PUBLISHED_DEVICES];
} File;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and who has which slot */
static File *file;                                       /* NULL: nothing is published (yet) */
static bool tried;
static char path[512];

#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#pragma mark The process

static uint64_t since_epoch(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef __APPLE__

static uint64_t start_time(void) {
  struct kinfo_proc info;
  size_t length = sizeof info;
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, getpid()};
  if (sysctl(name, 4, &info, &length, NULL, 0) != 0 || length == 0) return 0;
  return (uint64_t)info.kp_proc.p_starttime.tv_sec * 1000000u + (uint64_t)info.kp_proc.p_starttime.tv_usec;
}

static const char *program(void) { return getprogname(); }

#else

/* proc(5): the 22nd field, counted behind the name in parentheses, which may hold anything. */
static uint64_t start_time(void) {
  char text[1024];
  FILE *stat = fopen("/proc/self/stat", "re");
  if (!stat) return 0;
  size_t length = fread(text, 1, sizeof text - 1, stat);
  fclose(stat);
  text[length] = '\0';
  char *field = strrchr(text, ')');
  for (int number = 2; field && number < 22; number++) field = strchr(field + 1, ' ');
  return field ? strtoull(field + 1, NULL, 10) : 0;
}

static const char *program(void) {
  extern char *program_invocation_short_name;
  return program_invocation_short_name;
}

#endif

#pragma mark The file

/* Opens a folder that only this user can have put files into, making it when it is not there; -1 when there is none. */
static int open_own_folder(const char *folder) {
  if (mkdir(folder, 0700) != 0 && errno != EEXIST) return -1;
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (descriptor < 0) return -1;
  if (fstat(descriptor, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return descriptor;
  close(descriptor);
  return -1;
}

static int open_folder(char *folder, size_t capacity) {
  const char *given = IronEnvironment()->publish;
  if (given) {
    snprintf(folder, capacity, "%s", given);
    return open_own_folder(folder);
  }
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && runtime[0] == '/') {
    snprintf(folder, capacity, "%s/ironbridge", runtime);
    int descriptor = open_own_folder(folder);
    if (descriptor >= 0) return descriptor;
  }
  snprintf(folder, capacity, "/tmp/ironbridge-%u", (unsigned)geteuid());
  return open_own_folder(folder);
}

static void unpublish(void) {
  pthread_mutex_lock(&lock);
  if (file && LOAD(file->process.pid) == (uint64_t)getpid()) unlink(path);
  pthread_mutex_unlock(&lock);
}

/* A forked child has its own file or none: what it inherits becomes memory that nobody sees. */
static void forget_in_child(void) {
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_FIXED;
  if (file) mmap(file, sizeof *file, PROT_READ | PROT_WRITE, flags, -1, 0);
  file = NULL;
  tried = false;
  pthread_mutex_init(&lock, NULL);
}

static File *map_file(int folder, const char *name) {
  int descriptor = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return NULL;
  void *mapped = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(File)) == 0)
    mapped = mmap(NULL, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped != MAP_FAILED) return mapped;
  unlinkat(folder, name, 0);
  return NULL;
}

/* Lock held. */
static void publish(void) {
  if (tried || IronEnvironment()->publish_nothing) return;
  tried = true;
  char folder[400], name[64];
  int descriptor = open_folder(folder, sizeof folder);
  if (descriptor < 0) return;
  uint64_t started = start_time();
  snprintf(name, sizeof name, "%ld-%llu", (long)getpid(), (unsigned long long)started);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  unlinkat(descriptor, name, 0); /* of a process that a machine without this start time had before */
  file = map_file(descriptor, name);
  close(descriptor);
  if (!file) return;
  file->process = (iron_published_process){.version = IRON_PUBLISHED_VERSION,
                                           .device_offset = offsetof(File, devices),
                                           .device_size = sizeof(iron_published_device),
                                           .device_slots = IRON_PUBLISHED_DEVICES,
                                           .pid = (uint64_t)getpid(),
                                           .start_time = started,
                                           .published_at = since_epoch()};
  IronTextCopy(file->process.program, sizeof file->process.program, program());
  __atomic_store_n(&file->process.magic, IRON_PUBLISHED_MAGIC, __ATOMIC_RELEASE);
  static bool once;
  if (once) return;
  once = true;
  atexit(unpublish);
  pthread_atfork(NULL, NULL, forget_in_child);
}

#pragma mark Devices

/* Lock held. */
static iron_published_device *free_slot(void) {
  if (!file) return NULL;
  for (uint32_t index = 0; index < IRON_PUBLISHED_DEVICES; index++)
    if (LOAD(file->devices[index].opened_at) == 0) return &file->devices[index];
  return NULL;
}

void IronPublicationOpen(IronPublication *publication, uint32_t kind, uint32_t index, const char *name) {
  pthread_mutex_lock(&lock);
  publish();
  iron_published_device *slot = free_slot();
  if (!slot) {
    if (file) __atomic_fetch_add(&file->process.unpublished, 1, __ATOMIC_RELAXED);
    slot = &publication->unseen;
  }
  memset(slot, 0, sizeof *slot);
  slot->kind = kind;
  slot->index = index;
  IronTextCopy(slot->name, sizeof slot->name, name);
  __atomic_store_n(&slot->opened_at, since_epoch(), __ATOMIC_RELEASE);
  publication->slot = slot;
  pthread_mutex_unlock(&lock);
}

void IronPublicationClose(IronPublication *publication) {
  if (!publication->slot) return;
  pthread_mutex_lock(&lock);
  STORE(publication->slot->opened_at, 0);
  if (publication->slot == &publication->unseen && file)
    __atomic_fetch_sub(&file->process.unpublished, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&lock);
}

uint64_t IronPublicationWrite(IronPublication *publication, const IronPublishedFigures *figures) {
  iron_published_device *slot = publication->slot;
  uint64_t sequence = LOAD(slot->sequence);
  STORE(slot->sequence, sequence + 1);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  STORE(slot->memory_limit, figures->memory_limit);
  STORE(slot->active_bytes, figures->active_bytes);
  STORE(slot->active_buffers, figures->active_buffers);
  STORE(slot->cached_bytes, figures->cached_bytes);
  STORE(slot->cached_buffers, figures->cached_buffers);
  STORE(slot->peak_bytes, figures->peak_bytes);
  STORE(slot->allocations, figures->allocations);
  STORE(slot->releases, figures->releases);
  STORE(slot->pool_hits, figures->pool_hits);
  STORE(slot->pool_misses, figures->pool_misses);
  __atomic_store_n(&slot->sequence, sequence + 2, __ATOMIC_RELEASE);
  return LOAD(slot->requests) ? __atomic_exchange_n(&slot->requests, 0, __ATOMIC_RELAXED) : 0;
}

void IronPublicationCountOperation(IronPublication *publication) {
  __atomic_fetch_add(&publication->slot->operations, 1, __ATOMIC_RELAXED);
}

void IronPublicationSetBaseline(IronPublication *publication, uint64_t bytes) {
  STORE(publication->slot->baseline_bytes, bytes);
}

uint64_t IronPublicationBaseline(const IronPublication *publication) {
  return LOAD(publication->slot->baseline_bytes);
}
