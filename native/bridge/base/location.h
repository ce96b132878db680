/* The place in the caller's source that the thread's next call comes from (iron_source). */
#ifndef IRON_BRIDGE_LOCATION_H
#define IRON_BRIDGE_LOCATION_H

#include <stddef.h>
#include <stdint.h>

typedef struct IronLocation {
  const char *file; /* not ours, valid for ever; NULL: nobody said */
  size_t length;
  uint32_t line;
} IronLocation;

/* What the caller said, once: the next call that says nothing has no place. */
IronLocation IronLocationTake(void);

#endif
