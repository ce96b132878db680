#import "structs.h"

#include <string.h>

#import "error.h"

static iron_status check_size(size_t size, size_t known, const char *argument) {
  if (size < sizeof(size_t))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its size is %zu, set it to sizeof the struct (%zu)",
                           argument, size, known);
  if (size > known)
    return IronErrorReport(
        IRON_ERROR_INVALID_ARGUMENT,
        "%s: its size is %zu, this library (ABI %u) knows %zu bytes of it: the header is newer or the size was "
        "not set",
        argument, size, IRON_ABI_VERSION, known);
  return IRON_OK;
}

iron_status IronStructRead(void *local, size_t known, const void *given, const char *argument) {
  if (!given) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument);
  return IronStructReadOptional(local, known, given, argument);
}

iron_status IronStructReadOptional(void *local, size_t known, const void *given, const char *argument) {
  memset(local, 0, known);
  if (!given) return IRON_OK;
  size_t size;
  memcpy(&size, given, sizeof size);
  iron_status status = check_size(size, known, argument);
  if (status == IRON_OK) memcpy(local, given, size);
  return status;
}

iron_status IronStructClear(void *given, size_t known, const char *argument) {
  if (!given) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument);
  size_t size;
  memcpy(&size, given, sizeof size);
  iron_status status = check_size(size, known, argument);
  if (status == IRON_OK) memset((char *)given + sizeof size, 0, size - sizeof size);
  return status;
}

void IronStructWrite(void *given, const void *local) {
  size_t size;
  memcpy(&size, given, sizeof size);
  memcpy((char *)given + sizeof size, (const char *)local + sizeof size, size - sizeof size);
}
