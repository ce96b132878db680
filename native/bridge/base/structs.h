/* The header's structs that start with their size, so that callers and libraries of different ages understand each
 * other: what a shorter struct lacks takes its default, and what a longer one has more must have it. */
#ifndef IRON_BRIDGE_STRUCTS_H
#define IRON_BRIDGE_STRUCTS_H

#include "layout.h"

/* Copies the caller's `given` into `local`; what a shorter struct lacks is zero, the default. */
iron_status IronStructRead(void *local, const IronLayout *layout, const void *given, const char *argument);
/* The same, where NULL stands for a struct of zeros. */
iron_status IronStructReadOptional(void *local, const IronLayout *layout, const void *given, const char *argument);

/* Checks a struct that is to be filled, and zeroes all of it but its size. */
iron_status IronStructClear(void *given, const IronLayout *layout, const char *argument);
/* Copies as much of `local` as the caller's struct has room for. */
void IronStructWrite(void *given, const IronLayout *layout, const void *local);

#define IRON_READ_STRUCT(local, given, argument) \
  IRON_TRY(IronStructRead(&(local), IRON_LAYOUT_OF(local), given, argument))
#define IRON_READ_OPTIONAL_STRUCT(local, given, argument) \
  IRON_TRY(IronStructReadOptional(&(local), IRON_LAYOUT_OF(local), given, argument))
#define IRON_CLEAR_STRUCT(given, argument) IRON_TRY(IronStructClear(given, IRON_LAYOUT_OF(*(given)), argument))
#define IRON_WRITE_STRUCT(given, local) IronStructWrite(given, IRON_LAYOUT_OF(local), &(local))

/* Checks a truth value among the fields of a struct. */
iron_status IronTruthCheck(const char *field, uint32_t value);
/* Checks the `reserved` fields of a struct that has no size. */
iron_status IronReservedCheck(const char *argument, const uint32_t *reserved, size_t count);
#define IRON_CHECK_RESERVED(argument, given) \
  IRON_TRY(IronReservedCheck(argument, (given).reserved, sizeof(given).reserved / sizeof(uint32_t)))

/* Checks an out-parameter for a handle and sets it to NULL. */
#define IRON_CLEAR_RESULT(result, argument)                                                      \
  do {                                                                                           \
    if (!(result)) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument); \
    *(result) = 0;                                                                               \
  } while (0)

#endif
