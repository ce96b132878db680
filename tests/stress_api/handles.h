/* The handles that all threads share, and the wrong ones.
 *
 * Each reference that the program owns lies in one place of a table: a create or retain puts it there, a release takes
 * it out. Threads also give back references that they do not own, so a place may hold a handle that is gone; giving
 * that back is refused. So there are never fewer places than references, and when all places are empty the library has
 * nothing left.
 *
 * Only relaxed atomics order the threads here: locks of the program's own would hide races from ThreadSanitizer. */
#ifndef STRESS_HANDLES_H
#define STRESS_HANDLES_H

#include <ironbridge_llama.h>
#include <ironbridge_memory.h>
#include <stdbool.h>

#include "random.h"

typedef enum Kind {
  DEVICE, BUFFER, COMMANDS, LIBRARY, KERNEL,
  MODEL_FILE, MODEL, TOKENIZER, DECODER, CHAT, SESSION, SAMPLER, GENERATION, WRITER, CANCEL,
  KINDS
} Kind;

/* Handles that fit each other, made on one device or on those that took its place. The devices of group 0 are all the
 * witness. */
enum { GROUPS = 3, SCRATCH = 1 << 20 };

/* One step of one thread. */
typedef struct Call {
  Random random;
  unsigned char *scratch; /* SCRATCH bytes of the thread's own */
  unsigned group, depth;
} Call;

/* A device that is never closed, whose books are looked at in the end. */
void handles_set_witness(iron_device *device);
iron_device *handles_witness(void);
bool handles_is_witness(const void *handle);

/* A reference that the program has got; gives another one back for it. NULL is none. */
void handles_put(Call *call, Kind kind, void *handle);
/* A handle for an argument: mostly a live one of the call's group, else released, of another kind, with a bit flipped,
 * or made up. */
void *handles_any(Call *call, Kind kind);
/* A handle to give back, the same way; one that is live is taken out of its place. */
void *handles_take(Call *call, Kind kind);

/* A map that the program has to end; ends another one for it. */
void handles_put_map(Call *call, void *buffer, iron_access access);
iron_status handles_unmap(void *buffer, iron_access access);

/* Handles that only the calling thread uses: no flipped bit leads to them. At most 16 at once; NULL for `old` or `new`
 * is none. */
void handles_own(unsigned thread, const void *old, const void *new);

/* A reference is given back. */
iron_status handles_release(Kind kind, void *handle);
/* All maps are ended and all references given back. */
void handles_release_all(void);

#endif
