#include "handles.h"

#include <stdatomic.h>
#include <stddef.h>

#include "record.h"

enum { PLACES = 24, RELEASED = 32, MAPS = 16, OWNED = 16 };

typedef _Atomic(void *) Place;

static const unsigned places_of[KINDS] = {
    [DEVICE] = 1,    [BUFFER] = PLACES, [COMMANDS] = 6, [LIBRARY] = 3, [KERNEL] = 6,
    [MODEL_FILE] = 2, [MODEL] = 2,      [TOKENIZER] = 2, [DECODER] = 2, [CHAT] = 2,
    [SESSION] = 3,   [SAMPLER] = 2,     [GENERATION] = 3, [WRITER] = 2, [CANCEL] = 2,
};
static Place live[KINDS][GROUPS][PLACES];
static Place released[KINDS][RELEASED];
static _Atomic(unsigned) released_count;
static Place maps[IRON_ACCESS_READ_WRITE + 1][MAPS];
static Place owned[MAX_THREADS + 1][OWNED];
static Place witness;

static void *load(Place *place) { return atomic_load_explicit(place, memory_order_relaxed); }
static void *swap(Place *place, void *handle) { return atomic_exchange_explicit(place, handle, memory_order_relaxed); }

void handles_set_witness(iron_device *device) { swap(&witness, device); }
iron_device *handles_witness(void) { return load(&witness); }
bool handles_is_witness(const void *handle) { return handle && handle == load(&witness); }

iron_status handles_release(Kind kind, void *handle) {
  unsigned place = atomic_fetch_add_explicit(&released_count, 1, memory_order_relaxed) % RELEASED;
  swap(&released[kind][place], handle);
  switch (kind) {
    case DEVICE:
      return CALL(iron_device_release, handle);
    case BUFFER:
      return CALL(iron_buffer_release, handle);
    case COMMANDS:
      return CALL(iron_commands_release, handle);
    case LIBRARY:
      return CALL(iron_library_release, handle);
    case KERNEL:
      return CALL(iron_kernel_release, handle);
    case MODEL_FILE:
      return CALL(iron_model_file_release, handle);
    case MODEL:
      return CALL(iron_model_release, handle);
    case TOKENIZER:
      return CALL(iron_tokenizer_release, handle);
    case DECODER:
      return CALL(iron_decoder_release, handle);
    case CHAT:
      return CALL(iron_chat_release, handle);
    case SESSION:
      return CALL(iron_session_release, handle);
    case SAMPLER:
      return CALL(iron_sampler_release, handle);
    case GENERATION:
      return CALL(iron_generation_release, handle);
    case WRITER:
      return CALL(iron_writer_release, handle);
    default:
      return CALL(iron_cancel_release, handle);
  }
}

void handles_put(Call *call, Kind kind, void *handle) {
  if (!handle) return;
  unsigned group = kind == DEVICE && handles_is_witness(handle) ? 0 : call->group;
  /* No device but the witness in group 0: the others are closed and full of faults. */
  if (kind == DEVICE && group == 0 && !handles_is_witness(handle))
    group = 1 + (unsigned)random_below(&call->random, GROUPS - 1);
  void *before = swap(&live[kind][group][random_below(&call->random, places_of[kind])], handle);
  if (before) handles_release(kind, before);
}

/* A place with a handle in it, looked for from any on; NULL when the group has none. */
static Place *occupied(Call *call, Kind kind, unsigned group) {
  unsigned start = (unsigned)random_below(&call->random, places_of[kind]);
  for (unsigned step = 0; step < places_of[kind]; step++) {
    Place *place = &live[kind][group][(start + step) % places_of[kind]];
    if (load(place)) return place;
  }
  return NULL;
}

static unsigned group_for(Call *call) {
  return random_chance(&call->random, 98) ? call->group : (unsigned)random_below(&call->random, GROUPS);
}

static void *live_one(Call *call, Kind kind) {
  unsigned group = group_for(call);
  Place *place = occupied(call, kind, group);
  if (place) return load(place);
  return kind == DEVICE && group == 0 ? handles_witness() : NULL;
}

static bool is_owned(const void *handle) {
  for (unsigned thread = 0; thread <= MAX_THREADS; thread++)
    for (unsigned index = 0; index < OWNED; index++)
      if (load(&owned[thread][index]) == handle) return true;
  return false;
}

static void *wrong_one(Call *call, Kind kind) {
  Random *random = &call->random;
  switch (random_below(random, 6)) {
    case 0:
      return NULL;
    case 1:
      return load(&released[kind][random_below(random, RELEASED)]);
    case 2:
      return live_one(call, (Kind)random_below(random, KINDS));
    case 3: {
      uintptr_t flipped = (uintptr_t)live_one(call, kind) ^ (uintptr_t)1 << random_below(random, sizeof(void *) * 8);
      return is_owned((void *)flipped) ? NULL : (void *)flipped;
    }
    case 4:
      return call->scratch;
    default:
      return (void *)(uintptr_t)random_count(random, UINT64_MAX);
  }
}

void *handles_any(Call *call, Kind kind) {
  return random_chance(&call->random, 98) ? live_one(call, kind) : wrong_one(call, kind);
}

void *handles_take(Call *call, Kind kind) {
  if (random_chance(&call->random, 80)) {
    Place *place = occupied(call, kind, call->group);
    return place ? swap(place, NULL) : NULL;
  }
  void *wrong = random_chance(&call->random, 50) ? live_one(call, kind) : wrong_one(call, kind);
  return handles_is_witness(wrong) ? NULL : wrong;
}

iron_status handles_unmap(void *buffer, iron_access access) { return CALL(iron_buffer_unmap, buffer, access); }

void handles_put_map(Call *call, void *buffer, iron_access access) {
  void *before = swap(&maps[access][random_below(&call->random, MAPS)], buffer);
  if (before) handles_unmap(before, access);
}

void handles_own(unsigned thread, const void *old, const void *new) {
  for (unsigned index = 0; index < OWNED; index++) {
    if (load(&owned[thread][index]) != old) continue;
    swap(&owned[thread][index], (void *)(uintptr_t)new);
    return;
  }
}

void handles_release_all(void) {
  for (int access = IRON_ACCESS_READ; access <= IRON_ACCESS_READ_WRITE; access++)
    for (unsigned index = 0; index < MAPS; index++) {
      void *buffer = swap(&maps[access][index], NULL);
      if (buffer) handles_unmap(buffer, (iron_access)access);
    }
  for (Kind kind = KINDS; kind-- > DEVICE;)
    for (unsigned group = 0; group < GROUPS; group++)
      for (unsigned place = 0; place < places_of[kind]; place++) {
        void *handle = swap(&live[kind][group][place], NULL);
        if (handle) handles_release(kind, handle);
      }
}
