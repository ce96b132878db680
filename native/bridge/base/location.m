#include "location.h"

#include <string.h>

#include "ironbridge.h"

static _Thread_local IronLocation next;

/* No pool and no check: it is called before every call of the facade. */
iron_status iron_source(const char *file, size_t length, uint32_t line) {
  next = (IronLocation){.file = file, .length = file && length == 0 ? strlen(file) : length, .line = line};
  return IRON_OK;
}

IronLocation IronLocationTake(void) {
  IronLocation taken = next;
  next = (IronLocation){.file = NULL};
  return taken;
}
