#include "publication.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/monitor.h"
#include "published_record.h"
#include "reaper.h"
#include "base/text.h"

typedef struct File {
  iron_published_process process;
  iron_published_device devices[IRON_PUBLISHED_DEVICES];
} File;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and who has which slot */
static IronPublishedRecord record;
static File *file; /* the record's memory; NULL: nothing is published (yet) */
static bool tried;

#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#pragma mark The process

static uint64_t since_epoch(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef __APPLE__
static const char *program(void) { return getprogname(); }
#else
static const char *program(void) {
  extern char *program_invocation_short_name;
  return program_invocation_short_name;
}
#endif

/* Passes on what has changed; nothing to do where others read the same memory. */
static void pass_on(const void *place, size_t length) {
  if (record.plain && IronPublishedRecordNeedsWrites(&record, place)) IronPublishedRecordWrite(&record, place, length);
}

static void unpublish(void) {
  pthread_mutex_lock(&lock);
  IronPublishedRecordRemove(&record);
  pthread_mutex_unlock(&lock);
}

/* A forked child has its own record or none. */
static void forget_in_child(void) {
  IronPublishedRecordForget(&record);
  file = NULL;
  tried = false;
  pthread_mutex_init(&lock, NULL);
}

/* Lock held. */
static void publish(void) {
  if (tried || IronEnvironment()->publish_nothing) return;
  tried = true;
  if (!IronPublishedRecordOpen(&record, sizeof(File))) return;
  file = record.memory;
  file->process = (iron_published_process){.version = IRON_PUBLISHED_VERSION,
                                           .device_offset = offsetof(File, devices),
                                           .device_size = sizeof(iron_published_device),
                                           .device_slots = IRON_PUBLISHED_DEVICES,
                                           .pid = (uint64_t)getpid(),
                                           .start_time = IronProcessStartTime(),
                                           .published_at = since_epoch()};
  IronTextCopy(file->process.program, sizeof file->process.program, program());
  pass_on(&file->process, sizeof file->process);
  __atomic_store_n(&file->process.magic, IRON_PUBLISHED_MAGIC, __ATOMIC_RELEASE);
  pass_on(&file->process.magic, sizeof file->process.magic);
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

/* Lock held. A device more or less that has no slot. */
static void count_unpublished(uint32_t change) {
  if (!file) return;
  __atomic_fetch_add(&file->process.unpublished, change, __ATOMIC_RELAXED);
  pass_on(&file->process.unpublished, sizeof file->process.unpublished);
}

void IronPublicationOpen(IronPublication *publication, uint32_t kind, uint32_t index, const char *name) {
  pthread_mutex_lock(&lock);
  publish();
  iron_published_device *slot = free_slot();
  if (!slot) {
    count_unpublished(1);
    slot = &publication->unseen;
  }
  memset(slot, 0, sizeof *slot);
  slot->kind = kind;
  slot->index = index;
  IronTextCopy(slot->name, sizeof slot->name, name);
  pass_on(slot, sizeof *slot);
  __atomic_store_n(&slot->opened_at, since_epoch(), __ATOMIC_RELEASE);
  pass_on(&slot->opened_at, sizeof slot->opened_at);
  publication->slot = slot;
  pthread_mutex_unlock(&lock);
}

void IronPublicationClose(IronPublication *publication) {
  iron_published_device *slot = publication->slot;
  if (!slot) return;
  pthread_mutex_lock(&lock);
  STORE(slot->opened_at, 0);
  pass_on(&slot->opened_at, sizeof slot->opened_at);
  if (slot == &publication->unseen) count_unpublished(UINT32_MAX);
  pthread_mutex_unlock(&lock);
}

#pragma mark Figures

/* The same steps as in memory, and then what readers have written meanwhile. */
static void write_figures(iron_published_device *slot) {
  if (!IronPublishedRecordNeedsWrites(&record, slot)) return;
  const size_t figures = offsetof(iron_published_device, kind), end = offsetof(iron_published_device, baseline_bytes);
  const uint64_t sequence = LOAD(slot->sequence);
  STORE(slot->sequence, sequence + 1);
  IronPublishedRecordWrite(&record, &slot->sequence, sizeof slot->sequence);
  IronPublishedRecordWrite(&record, (const char *)slot + figures, end - figures);
  STORE(slot->sequence, sequence + 2);
  IronPublishedRecordWrite(&record, &slot->sequence, sizeof slot->sequence);
  IronPublishedRecordRead(&record, (char *)slot + end, sizeof *slot - end);
}

/* Writes are system calls, and figures change with every buffer: those of some time are written together. False when
 * nobody will. */
static bool leave_to_reaper(IronPublication *publication) {
  const uint64_t delay = UINT64_C(10000000); /* ns: no person sees it */
  if (atomic_load_explicit(&publication->late, memory_order_relaxed)) return true;
  if (publication->slot == &publication->unseen || atomic_exchange(&publication->late, true)) return true;
  if (IronReaperExpect(IronNow() + delay)) return true;
  atomic_store(&publication->late, false);
  return false;
}

static uint64_t take_requests(iron_published_device *slot) {
  if (!LOAD(slot->requests)) return 0;
  uint64_t requests = __atomic_exchange_n(&slot->requests, 0, __ATOMIC_RELAXED);
  pass_on(&slot->requests, sizeof slot->requests);
  return requests;
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
  if (record.plain && !leave_to_reaper(publication)) write_figures(slot);
  return take_requests(slot);
}

uint64_t IronPublicationCatchUp(IronPublication *publication) {
  if (!atomic_exchange(&publication->late, false)) return 0;
  write_figures(publication->slot);
  return take_requests(publication->slot);
}

void IronPublicationCountOperation(IronPublication *publication) {
  __atomic_fetch_add(&publication->slot->operations, 1, __ATOMIC_RELAXED);
  if (record.plain) leave_to_reaper(publication);
}

void IronPublicationSetBaseline(IronPublication *publication, uint64_t bytes) {
  STORE(publication->slot->baseline_bytes, bytes);
  pass_on(&publication->slot->baseline_bytes, sizeof bytes);
}
