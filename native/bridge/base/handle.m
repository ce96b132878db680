#import "handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "monitor.h"
#include "schedule.h"

/* A ticket: kind in the lowest 4 bits (never 0, so that no aligned address looks like a ticket), index, generation. */
enum { KIND_BITS = 4, INDEX_BITS = 24, GENERATION_BITS = 36 };
_Static_assert(sizeof(void *) * 8 == KIND_BITS + INDEX_BITS + GENERATION_BITS, "a ticket fills a pointer");

enum { CHUNK = 4096, CHUNKS = (1 << INDEX_BITS) / CHUNK };
static const uint64_t LAST_GENERATION = (UINT64_C(1) << GENERATION_BITS) - 1;

typedef struct Slot {
  _Atomic(uint64_t) generation; /* written under the lock */
  uint64_t references;          /* 0: free */
  id object;           /* +1 */
  IronHandleKind kind;
  uint32_t next_free; /* index + 1; 0 ends the list */
} Slot;

/* Chunks are made when needed and kept: a slot's address never changes, and the table is as large as the most handles
 * that were alive at once. */
static _Atomic(Slot *) chunks[CHUNKS];
static _Atomic(uint32_t) slot_count;
static atomic_int_fast64_t live;

static pthread_mutex_t growth = PTHREAD_MUTEX_INITIALIZER; /* guards the free list and the making of slots */
static uint32_t first_free;                                /* index + 1 */

/* A slot's contents are guarded by one of these. */
enum { LOCKS = 16 };
static pthread_mutex_t locks[LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static Slot *slot_at(uint32_t index) {
  return atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire) + index % CHUNK;
}

static pthread_mutex_t *lock_of(uint32_t index) { return &locks[index % LOCKS]; }

#pragma mark Tickets

static void *ticket(IronHandleKind kind, uint32_t index, uint64_t generation) {
  return (void *)(uintptr_t)(generation << (KIND_BITS + INDEX_BITS) | (uint64_t)index << KIND_BITS | (uint64_t)kind);
}

static IronHandleKind ticket_kind(const void *handle) { return (uintptr_t)handle & ((1u << KIND_BITS) - 1); }
static uint32_t ticket_index(const void *handle) { return (uintptr_t)handle >> KIND_BITS & ((1u << INDEX_BITS) - 1); }
static uint64_t ticket_generation(const void *handle) {
  return (uint64_t)(uintptr_t)handle >> (KIND_BITS + INDEX_BITS);
}

/* Neighbors have generations far apart, so that a ticket with a wrong bit leads to no live slot. The second half of all
 * generations is left for use. Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators". */
static uint64_t first_generation(uint32_t index) {
  uint64_t mixed = (index + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
  mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
  return mixed >> (64 - GENERATION_BITS + 1);
}

static const char *type_name(IronHandleKind kind) {
  static const char *const names[] = {[IRON_HANDLE_DEVICE] = "iron_device",
                                      [IRON_HANDLE_BUFFER] = "iron_buffer",
                                      [IRON_HANDLE_COMMANDS] = "iron_commands",
                                      [IRON_HANDLE_LIBRARY] = "iron_library",
                                      [IRON_HANDLE_KERNEL] = "iron_kernel",
                                      [IRON_HANDLE_MODEL_FILE] = "iron_model_file",
                                      [IRON_HANDLE_MODEL] = "iron_model",
                                      [IRON_HANDLE_TOKENIZER] = "iron_tokenizer",
                                      [IRON_HANDLE_DECODER] = "iron_decoder",
                                      [IRON_HANDLE_CHAT] = "iron_chat",
                                      [IRON_HANDLE_SESSION] = "iron_session",
                                      [IRON_HANDLE_SAMPLER] = "iron_sampler",
                                      [IRON_HANDLE_GENERATION] = "iron_generation",
                                      [IRON_HANDLE_WRITER] = "iron_writer",
                                      [IRON_HANDLE_CANCEL] = "iron_cancel"};
  return (size_t)kind < sizeof names / sizeof *names && names[kind] ? names[kind] : NULL;
}

IronHandleKind IronHandleKindOf(const char *type) {
  IronHandleKind kind = IRON_HANDLE_DEVICE;
  while (type_name(kind) && strcmp(type_name(kind), type) != 0) kind += 1;
  return kind;
}

/* The slot that the handle is a ticket for, with its lock held; NULL, with the error reported, when it is none. */
static Slot *lock_slot(const void *handle, IronHandleKind kind, const char *argument) {
  const char *wanted = type_name(kind), *given = type_name(ticket_kind(handle));
  uint32_t index = ticket_index(handle);
  if (!handle) {
    IronErrorReport(IRON_ERROR_INVALID_HANDLE, "%s: NULL, an %s is needed", argument, wanted);
    return NULL;
  }
  if (!given || index >= atomic_load_explicit(&slot_count, memory_order_acquire)) {
    IronErrorReport(IRON_ERROR_INVALID_HANDLE, "%s: not a handle of ironbridge", argument);
    return NULL;
  }
  if (ticket_kind(handle) != kind) {
    IronErrorReport(IRON_ERROR_INVALID_HANDLE, "%s: a handle of an %s, an %s is needed", argument, given, wanted);
    return NULL;
  }
  IronLeafLock(lock_of(index));
  Slot *slot = slot_at(index);
  if (slot->references && slot->kind == kind && slot->generation == ticket_generation(handle)) return slot;
  IronLeafUnlock(lock_of(index));
  IronErrorReport(IRON_ERROR_INVALID_HANDLE, "%s: this %s was already released", argument, wanted);
  return NULL;
}

#pragma mark Slots

/* The index of a free slot; false when there is no memory for one. */
static bool take_slot(uint32_t *index) {
  bool found = true;
  IronLeafLock(&growth);
  uint32_t count = atomic_load_explicit(&slot_count, memory_order_relaxed);
  if (first_free) {
    *index = first_free - 1;
    first_free = slot_at(*index)->next_free;
  } else if (count < (1u << INDEX_BITS)) {
    if (count % CHUNK == 0) {
      Slot *chunk = calloc(CHUNK, sizeof *chunk);
      found = chunk != NULL;
      if (found) atomic_store_explicit(&chunks[count / CHUNK], chunk, memory_order_release);
    }
    if (found) {
      *index = count;
      slot_at(count)->generation = first_generation(count);
      atomic_store_explicit(&slot_count, count + 1, memory_order_release);
    }
  } else {
    found = false;
  }
  IronLeafUnlock(&growth);
  return found;
}

static void return_slot(uint32_t index) {
  IronLeafLock(&growth);
  slot_at(index)->next_free = first_free;
  first_free = index + 1;
  IronLeafUnlock(&growth);
}

#pragma mark Handles

iron_status IronHandleCreate(id object, IronHandleKind kind, void **handle) {
  uint32_t index;
  if (!take_slot(&index)) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for another handle");
  IronLeafLock(lock_of(index));
  Slot *slot = slot_at(index);
  slot->object = [object retain];
  slot->kind = kind;
  slot->references = 1;
  *handle = ticket(kind, index, slot->generation);
  IronLeafUnlock(lock_of(index));
  atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
  return IRON_OK;
}

id IronHandleTake(const void *handle, IronHandleKind kind, const char *argument) {
  Slot *slot = lock_slot(handle, kind, argument);
  if (!slot) return nil;
  id object = [slot->object retain];
  IronLeafUnlock(lock_of(ticket_index(handle)));
  soft_schedule_point();
  return object;
}

id IronHandleAcquire(const void *handle, IronHandleKind kind, const char *argument) {
  return [IronHandleTake(handle, kind, argument) autorelease];
}

uint32_t IronHandleIndex(const void *handle) { return ticket_index(handle); }

/* The generation moves on with the last reference. */
bool IronHandleIsLive(const void *handle) {
  const Slot *slot = slot_at(ticket_index(handle));
  return atomic_load_explicit(&slot->generation, memory_order_acquire) == ticket_generation(handle);
}

iron_status IronHandleRetain(const void *handle, IronHandleKind kind, const char *argument) {
  Slot *slot = lock_slot(handle, kind, argument);
  if (!slot) return IRON_ERROR_INVALID_HANDLE;
  slot->references += 1;
  IronLeafUnlock(lock_of(ticket_index(handle)));
  atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
  return IRON_OK;
}

iron_status IronHandleRelease(const void *handle, IronHandleKind kind, const char *argument) {
  Slot *slot = lock_slot(handle, kind, argument);
  if (!slot) return IRON_ERROR_INVALID_HANDLE;
  uint32_t index = ticket_index(handle);
  id object = nil;
  bool reusable = false;
  if (--slot->references == 0) {
    object = slot->object;
    slot->object = nil;
    reusable = slot->generation <
               LAST_GENERATION; /* a slot that has used up its generations stays unused: no ticket comes twice */
    slot->generation += 1;
  }
  IronLeafUnlock(lock_of(index));
  atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
  soft_schedule_point();
  if (reusable) return_slot(index);
  [object release];
  return IRON_OK;
}

uint64_t IronHandleReferences(const void *handle, IronHandleKind kind) {
  uint32_t index = ticket_index(handle);
  IronLeafLock(lock_of(index));
  const Slot *slot = slot_at(index);
  bool is_live = slot->references && slot->kind == kind && slot->generation == ticket_generation(handle);
  uint64_t references = is_live ? slot->references : 0;
  IronLeafUnlock(lock_of(index));
  return references;
}

void IronHandlesForget(void) {
  for (int each = 0; each < LOCKS; each++) pthread_mutex_init(&locks[each], NULL);
  pthread_mutex_init(&growth, NULL);
}

int64_t IronHandleLiveCount(void) { return atomic_load_explicit(&live, memory_order_relaxed); }
