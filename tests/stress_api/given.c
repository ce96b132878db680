#include "given.h"

#include <string.h>

#include "record.h"

void *given_or_null(Call *call, void *pointer) { return random_chance(&call->random, 3) ? NULL : pointer; }

static uint64_t size_for(Call *call, size_t known) {
  Random *random = &call->random;
  if (random_chance(random, 96)) return known;
  return random_chance(random, 80) ? random_below(random, known + BEYOND) : random_count(random, known);
}

void given_input(Call *call, void *bytes, size_t known) {
  uint64_t size = size_for(call, known);
  memcpy(bytes, &size, sizeof size);
  size_t begin = size < sizeof size ? sizeof size : size < known ? (size_t)size : known;
  memset((unsigned char *)bytes + begin, RESULT, known + BEYOND - begin);
}

void given_output(Call *call, void *bytes, size_t known) {
  uint64_t size = size_for(call, known);
  memset(bytes, RESULT, known + BEYOND);
  memcpy(bytes, &size, sizeof size);
}

static bool all(const unsigned char *bytes, size_t begin, size_t end, unsigned char value) {
  for (size_t index = begin; index < end; index++)
    if (bytes[index] != value) return false;
  return true;
}

void given_output_check(const char *function, iron_status status, const void *bytes, size_t known) {
  uint64_t size;
  memcpy(&size, bytes, sizeof size);
  bool refused = size < sizeof size || size > known;
  size_t end = refused ? sizeof size : (size_t)size;
  if (!all(bytes, end, known + BEYOND, RESULT))
    failure("%s wrote behind the %llu bytes of its struct", function, (unsigned long long)size);
  if (status == IRON_OK || status == IRON_ERROR_INVALID_ARGUMENT || refused) return;
  if (!all(bytes, sizeof size, end, 0))
    failure("%s failed with %s and left results", function, iron_status_name(status));
}

static unsigned char no_handle[1];

void *given_result(void) { return no_handle; }

void *given_result_check(const char *function, iron_status status, void *result) {
  if (status == IRON_OK && (!result || result == no_handle)) failure("%s succeeded and gave no result", function);
  if (status != IRON_OK && result)
    failure("%s failed with %s and did not set its result to NULL", function, iron_status_name(status));
  return status == IRON_OK ? result : NULL;
}

/* 1,024 characters. */
#define SIXTEEN "0123456789abcdef"
#define FOUR(text) text text text text
#define LONGEST FOUR(FOUR(FOUR(SIXTEEN)))

const char *given_text(Call *call) {
  static const char *const texts[] = {"x",      "a label",     "",  "two\nlines", "\xff\xfe no UTF-8", "\xc3",
                                      "%s%n%p", "K\xc3\xa4se", NULL};
  uint64_t chosen = random_below(&call->random, sizeof texts / sizeof *texts + 1);
  return chosen < sizeof texts / sizeof *texts ? texts[chosen] : LONGEST;
}
