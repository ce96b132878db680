#include "held_locks.h"

#ifdef IRON_CHECK_LOCKS

#include <stdio.h>
#include <stdlib.h>

static _Thread_local unsigned held;

void held_locks_add(void) { held += 1; }
void held_locks_remove(void) { held -= 1; }

void held_locks_expect_none(const char *where) {
  if (held == 0) return;
  fprintf(stderr, "ironbridge: %s, while this thread holds %u lock%s: nothing that can raise or destroy objects may happen under one\n",
          where, held, held == 1 ? "" : "s");
  abort();
}

#endif
