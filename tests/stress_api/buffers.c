/* Buffers and the host's access to them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

static void *buffer_of(Call *call) { return handles_any(call, BUFFER); }

/* Most are large enough for a small operation. */
static uint64_t length_for(Call *call) {
  static const uint64_t usual[] = {256, 16384, 65536, 65536, 65536};
  Random *random = &call->random;
  return random_chance(random, 85) ? usual[random_below(random, sizeof usual / sizeof *usual)]
                                   : random_bytes(random, 8192);
}

static iron_buffer_options options_for(Call *call) {
  Random *random = &call->random;
  uint32_t last = random_chance(random, 90) ? IRON_CATEGORY_SCRATCH : IRON_CATEGORY_CAPACITY;
  return (iron_buffer_options){.storage = random_chance(random, 70) ? 0 : random_constant(random, 0, 1),
                               .category = random_constant(random, 0, last),
                               .label = random_chance(random, 80) ? "a buffer" : given_text(call),
                               .pooled = random_chance(random, 98) ? random_chance(random, 50) : 2,
                               .usage = random_chance(random, 98) ? 0 : random_constant(random, 0, 2)};
}

static void keep(Call *call, const char *function, iron_status status, void *place, void *result) {
  handles_put(call, BUFFER, given_result_check(function, status, place ? result : NULL));
}

static void buffer_create(Call *call) {
  GIVEN(iron_buffer_options) options = {.value = options_for(call)};
  options.value.read_only = random_chance(&call->random, 2);
  given_input(call, &options, sizeof options.value);
  void *result = given_result(), *place = given_or_null(call, &result);
  const void *with = random_chance(&call->random, 30) ? NULL : &options;
  iron_status status = CALL(iron_buffer_create, handles_any(call, DEVICE), length_for(call), with, place);
  keep(call, "iron_buffer_create", status, place, result);
}

static void buffer_create_with_bytes(Call *call) {
  GIVEN(iron_buffer_options) options = {.value = options_for(call)};
  given_input(call, &options, sizeof options.value);
  void *result = given_result(), *place = given_or_null(call, &result);
  const void *with = random_chance(&call->random, 30) ? NULL : &options, *bytes = given_or_null(call, call->scratch);
  iron_status status =
      CALL(iron_buffer_create_with_bytes, handles_any(call, DEVICE), bytes, length_for(call), with, place);
  keep(call, "iron_buffer_create_with_bytes", status, place, result);
}

/* Wrapped memory. It stays in a list, so that a second release shows. */
typedef struct Wrapped {
  struct Wrapped *next;
  void *pages;
  size_t length;
  _Atomic(int) lent; /* to the library */
} Wrapped;

static _Atomic(Wrapped *) every_wrapped;
/* Those without a release callback. */
static _Atomic(Wrapped *) unreleased;

static void push(_Atomic(Wrapped *) *list, Wrapped *wrapped) {
  wrapped->next = atomic_load(list);
  while (!atomic_compare_exchange_weak(list, &wrapped->next, wrapped)) continue;
}

static void give_back(void *pointer, uint64_t length, void *context) {
  Wrapped *wrapped = context;
  record_callback();
  if (pointer != wrapped->pages || length != wrapped->length)
    failure("a release callback got other memory than was wrapped");
  if (atomic_exchange(&wrapped->lent, 0) != 1)
    failure("wrapped memory was released twice, or without having been wrapped");
  munmap(pointer, length);
}

static Wrapped *map_pages(Call *call, bool read_only) {
  size_t length = (1 + random_below(&call->random, 8)) * (size_t)sysconf(_SC_PAGESIZE);
  void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Wrapped *wrapped = calloc(1, sizeof *wrapped);
  if (pages == MAP_FAILED || !wrapped) abort();
  memset(pages, 1, length);
  if (read_only) mprotect(pages, length, PROT_READ);
  wrapped->pages = pages;
  wrapped->length = length;
  atomic_store(&wrapped->lent, 1);
  return wrapped;
}

static void buffer_wrap(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_buffer_options) options = {.value = options_for(call)};
  options.value.read_only = random_chance(random, 30);
  if (random_chance(random, 90)) options.value.pooled = false, options.value.storage = IRON_STORAGE_SHARED;
  bool read_only = options.value.read_only, released = random_chance(random, 80);
  given_input(call, &options, sizeof options.value);
  /* The library sees only as much as `size` says: pages that it may take for writable are. */
  bool is_seen = options.value.size >= offsetof(iron_buffer_options, read_only) + sizeof options.value.read_only;
  Wrapped *wrapped = map_pages(call, read_only && is_seen);

  char *pointer = wrapped->pages;
  uint64_t length = wrapped->length;
  if (random_chance(random, 5)) pointer += 1 + random_below(random, 64);
  if (random_chance(random, 5)) length -= random_below(random, length + 1);
  void *result = given_result(), *place = given_or_null(call, &result);
  bool as_mapped = pointer == wrapped->pages && length == wrapped->length;
  iron_status status =
      CALL(iron_buffer_wrap, handles_any(call, DEVICE), as_mapped ? pointer : given_or_null(call, pointer), length,
           released ? give_back : NULL, wrapped, &options.value, place);
  if (status != IRON_OK) {
    if (atomic_exchange(&wrapped->lent, 0) != 1) failure("wrapped memory was released, though iron_buffer_wrap failed");
    munmap(wrapped->pages, wrapped->length);
    free(wrapped);
  } else if (released) {
    push(&every_wrapped, wrapped);
  } else {
    push(&unreleased, wrapped);
  }
  keep(call, "iron_buffer_wrap", status, place, result);
}

void buffer_calls_end(void) {
  for (Wrapped *wrapped = atomic_exchange(&every_wrapped, NULL), *next; wrapped; wrapped = next) {
    next = wrapped->next;
    if (atomic_load(&wrapped->lent)) failure("wrapped memory of %zu bytes was never released", wrapped->length);
    free(wrapped);
  }
  for (Wrapped *wrapped = atomic_exchange(&unreleased, NULL), *next; wrapped; wrapped = next) {
    next = wrapped->next;
    munmap(wrapped->pages, wrapped->length);
    free(wrapped);
  }
}

static void buffer_retain(Call *call) {
  void *buffer = buffer_of(call);
  if (CALL(iron_buffer_retain, buffer) == IRON_OK) handles_put(call, BUFFER, buffer);
}

static void buffer_release(Call *call) { handles_release(BUFFER, handles_take(call, BUFFER)); }

static void buffer_length(Call *call) {
  uint64_t length;
  CALL(iron_buffer_length, buffer_of(call), given_or_null(call, &length));
}

static void buffer_label(Call *call) {
  char text[256];
  size_t capacity = random_below(&call->random, random_chance(&call->random, 50) ? 8 : sizeof text + 1);
  void *place = given_or_null(call, text);
  iron_status status = CALL(iron_buffer_label, buffer_of(call), place, capacity);
  if (status == IRON_OK && !memchr(text, '\0', capacity)) failure("iron_buffer_label gave a text without an end");
}

static void buffer_set_label(Call *call) { CALL(iron_buffer_set_label, buffer_of(call), given_text(call)); }

/* Offset and length, mostly of a range that a buffer has. */
static void range_for(Call *call, uint64_t *offset, uint64_t *length) {
  *offset = random_chance(&call->random, 60) ? 0 : random_count(&call->random, 4096);
  *length = random_chance(&call->random, 20) ? length_for(call) : random_bytes(&call->random, 1024);
}

static void buffer_read(Call *call) {
  uint64_t offset, length;
  range_for(call, &offset, &length);
  CALL(iron_buffer_read, buffer_of(call), offset, given_or_null(call, call->scratch), length);
}

static void buffer_write(Call *call) {
  uint64_t offset, length;
  range_for(call, &offset, &length);
  CALL(iron_buffer_write, buffer_of(call), offset, given_or_null(call, call->scratch), length);
}

/* Half of them end at once, so that others get at the buffer. */
static void buffer_map(Call *call) {
  void *buffer = buffer_of(call), *result = given_result(), *place = given_or_null(call, &result);
  iron_access access = (iron_access)random_constant(&call->random, IRON_ACCESS_READ, IRON_ACCESS_READ_WRITE);
  iron_status status = CALL(iron_buffer_map, buffer, access, place);
  if (!given_result_check("iron_buffer_map", status, place ? result : NULL)) return;
  if (random_chance(&call->random, 50))
    handles_unmap(buffer, access);
  else
    handles_put_map(call, buffer, access);
}

static void buffer_unmap(Call *call) {
  handles_unmap(buffer_of(call), (iron_access)random_constant(&call->random, IRON_ACCESS_READ, IRON_ACCESS_READ_WRITE));
}

static void buffer_contents(Call *call) {
  void *result = given_result(), *place = given_or_null(call, &result);
  iron_status status = CALL(iron_buffer_contents, buffer_of(call), place);
  given_result_check("iron_buffer_contents", status, place ? result : NULL);
}

/* Rows of 32 F32, so that whichever buffer it is has room for some: a scratch's worth at most. */
static iron_weights weights_for(Call *call) {
  static const iron_dtype types[] = {IRON_F32, IRON_F16, IRON_Q8_0, IRON_Q4_1};
  Random *random = &call->random;
  iron_dtype type = types[random_below(random, sizeof types / sizeof *types)];
  uint64_t rows = random_chance(random, 90) ? 32 * (1 + random_below(random, 2)) : random_count(random, 90);
  return (iron_weights){.offset = random_chance(random, 70) ? 0 : random_below(random, 8) * 4352,
                        .rows = rows,
                        .width = random_chance(random, 95) ? 32 : random_below(random, 64),
                        .dtype = random_chance(random, 95) ? type : (uint32_t)random_bits(random)};
}

/* A buffer of weights with a matrix, for the others to use. */
static void weights_create(Call *call) {
  GIVEN(iron_buffer_options) options = {.value = {.size = sizeof options.value, .usage = IRON_USAGE_WEIGHTS}};
  GIVEN(iron_weights) matrix = {.value = weights_for(call)};
  matrix.value.size = sizeof matrix.value;
  matrix.value.offset = 0;
  void *result = given_result();
  iron_status status = CALL(iron_buffer_create, handles_any(call, DEVICE), 65536, &options.value, (void *)&result);
  if (status == IRON_OK) {
    CALL(iron_weights_write, result, &matrix.value, 0, matrix.value.rows, call->scratch);
    CALL(iron_weights_read, result, &matrix.value, 0, 1, call->scratch);
  }
  keep(call, "iron_buffer_create", status, &result, result);
}

static void weights_write(Call *call) {
  GIVEN(iron_weights) matrix = {.value = weights_for(call)};
  uint64_t first = random_chance(&call->random, 70) ? 0 : random_below(&call->random, 3) * 32;
  uint64_t count = random_chance(&call->random, 80) ? 32 : random_below(&call->random, 128);
  given_input(call, &matrix, sizeof matrix.value);
  CALL(iron_weights_write, buffer_of(call), given_or_null(call, &matrix), first, count,
       given_or_null(call, call->scratch));
}

static void weights_read(Call *call) {
  GIVEN(iron_weights) matrix = {.value = weights_for(call)};
  uint64_t first = random_chance(&call->random, 70) ? 0 : random_below(&call->random, 64);
  given_input(call, &matrix, sizeof matrix.value);
  CALL(iron_weights_read, buffer_of(call), given_or_null(call, &matrix), first, random_below(&call->random, 64),
       given_or_null(call, call->scratch));
}

static const Entry entries[] = {
    {weights_create, 4},  {weights_write, 6},
    {weights_read, 4},    {buffer_create, 120},
    {buffer_wrap, 10},    {buffer_create_with_bytes, 50},
    {buffer_retain, 30},  {buffer_length, 10},
    {buffer_release, 70}, {buffer_set_label, 10},
    {buffer_label, 10},   {buffer_write, 60},
    {buffer_read, 60},    {buffer_unmap, 20},
    {buffer_map, 30},     {buffer_contents, 5},
};
const Entries buffer_calls = {entries, sizeof entries / sizeof *entries};
