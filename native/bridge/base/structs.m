#import "structs.h"

#include <string.h>

#import "error.h"

/* No struct of any version is longer: such a size was never set. */
enum { LONGEST = 4096 };

static iron_status check_shorter(size_t size, const IronLayout *layout, const char *argument) {
  for (size_t index = 0; index < layout->count; index++) {
    const IronField *field = &layout->fields[index];
    if (size > field->start && size < field->end)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                             "%s: its size is %zu, which ends inside the field %s of %s; the nearest sizes that do not are "
                             "%zu and %zu, the whole struct has %zu",
                             argument, size, field->name, layout->name, field->start, field->end, layout->length);
  }
  return IRON_OK;
}

/* A newer caller that uses nothing newer. */
static iron_status check_longer(const char *given, size_t size, const IronLayout *layout, const char *argument) {
  bool is_zero = size <= LONGEST;
  for (size_t index = layout->length; is_zero && index < size; index++) is_zero = given[index] == 0;
  if (is_zero) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                         "%s: its size is %zu, this library (ABI %u) knows %zu bytes of %s, and what follows is not all "
                         "zero: the header is newer and a new field is set, or the size was not set",
                         argument, size, IRON_ABI_VERSION, layout->length, layout->name);
}

static iron_status check(const void *given, size_t size, const IronLayout *layout, const char *argument) {
  if (size < sizeof(size_t))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its size is %zu, set it to sizeof(%s), which is %zu",
                           argument, size, layout->name, layout->length);
  return size > layout->length ? check_longer(given, size, layout, argument) : check_shorter(size, layout, argument);
}

static size_t size_of(const void *given) {
  size_t size;
  memcpy(&size, given, sizeof size);
  return size;
}

static size_t known_part(size_t size, const IronLayout *layout) {
  return size < layout->length ? size : layout->length;
}

iron_status IronStructRead(void *local, const IronLayout *layout, const void *given, const char *argument) {
  if (!given) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument);
  return IronStructReadOptional(local, layout, given, argument);
}

iron_status IronStructReadOptional(void *local, const IronLayout *layout, const void *given, const char *argument) {
  memset(local, 0, layout->length);
  if (!given) return IRON_OK;
  size_t size = size_of(given);
  iron_status status = check(given, size, layout, argument);
  if (status == IRON_OK) memcpy(local, given, known_part(size, layout));
  return status;
}

iron_status IronStructClear(void *given, const IronLayout *layout, const char *argument) {
  if (!given) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument);
  size_t size = size_of(given);
  iron_status status = check(given, size, layout, argument);
  if (status == IRON_OK) memset((char *)given + sizeof size, 0, known_part(size, layout) - sizeof size);
  return status;
}

void IronStructWrite(void *given, const IronLayout *layout, const void *local) {
  size_t size = size_of(given);
  memcpy((char *)given + sizeof size, (const char *)local + sizeof size, known_part(size, layout) - sizeof size);
}

iron_status IronTruthCheck(const char *field, uint32_t value) {
  if (value <= 1) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is %u, 0 and 1 are possible", field, value);
}

iron_status IronReservedCheck(const char *argument, const uint32_t *reserved, size_t count) {
  for (size_t index = 0; index < count; index++)
    if (reserved[index] != 0)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                             "%s: reserved[%zu] is %u, this library (ABI %u) knows no use of it: the struct was not "
                             "zeroed, or the header is newer",
                             argument, index, reserved[index], IRON_ABI_VERSION);
  return IRON_OK;
}
