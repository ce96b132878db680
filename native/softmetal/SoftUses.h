/* How many command buffers in flight refer to a buffer or a pipeline. It outlives the thing it counts for: a use may
 * end after the memory is gone. */
#ifndef SOFT_USES_H
#define SOFT_USES_H

#include <stdatomic.h>
#include <stdlib.h>

typedef struct soft_uses {
  atomic_size_t count, owners;
} soft_uses;

/* With one owner; NULL when there is no memory. */
static inline soft_uses *soft_uses_new(void) {
  soft_uses *uses = calloc(1, sizeof *uses);
  if (uses) atomic_init(&uses->owners, 1);
  return uses;
}

static inline soft_uses *soft_uses_retain(soft_uses *uses) {
  atomic_fetch_add(&uses->owners, 1);
  return uses;
}

static inline void soft_uses_release(soft_uses *uses) {
  if (uses && atomic_fetch_sub(&uses->owners, 1) == 1) free(uses);
}

#endif
