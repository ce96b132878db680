/* The random calls. Each entry of the tables makes one call with random arguments, or a few that belong together. */
#ifndef STRESS_CALLS_H
#define STRESS_CALLS_H

#include "given.h"
#include "handles.h"
#include "random.h"
#include "record.h"

/* The more weight, the more often. */
typedef struct Entry {
  void (*make)(Call *call);
  unsigned weight;
} Entry;

typedef struct Entries {
  const Entry *entries;
  unsigned count;
} Entries;

extern const Entries device_calls, buffer_calls, commands_calls, operation_calls, kernel_calls, memory_calls,
    process_calls, owned_calls, published_calls, metal_calls, llama_calls;

/* How many entries there are, and the one with that number. */
unsigned calls_count(void);
void calls_make(Call *call, unsigned number);
void calls_make_any(Call *call);
/* From a callback: another random call, unless this is one within one already. */
void calls_make_within(Call *call);
/* The call that the calling thread is making, for callbacks; NULL on the library's own threads. */
Call *calls_current(void);

/* What is to be done once before the threads start: compiles the kernels on `device`, so that later ones come from the
 * cache. */
void kernel_calls_prepare(iron_device *device);
/* Captures are possible from now on. */
void metal_calls_prepare(void);
/* No hooks any more. */
void process_calls_end(void);
/* Memory that buffers without a release callback wrapped is unmapped: all buffers are gone. */
void buffer_calls_end(void);

#endif
