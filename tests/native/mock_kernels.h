/* Kernels for the software device's own tests: their behavior a test can hold in its hand. They run behind
 * mock_backend.h, which here is the only backend.
 *
 * A "source" is a list of names, each the name of one of these kernels; the word "error" in it does not compile.
 *
 *   add        out[2][i] = a[0][i] + b[1][i], count in bytes[3] (u32, float); says where a binding is missing or short
 *   describe   writes a described_dispatch to buffer 0
 *   constants  writes the soft_constants it was made with to buffer 0
 *   wait       waits until the gate is open
 *   narrow     at most 64 threads in a threadgroup
 *   hoard      16 KiB of threadgroup memory of its own
 *   glutton    more of it than there is
 *   special    cannot be made without constants
 *   page_fault, invalid, internal, out_of_memory, stack_overflow, timeout, unsupported, device_lost: that outcome
 *   silent     SOFT_INTERNAL without a text
 *   own        nothing, on the stream's own thread only
 *   share      nothing, and takes threadgroup memory 0
 *   tint       adds 1 to each byte of texture 0, and more with a sampler: its first address mode
 *
 * What runs on a thread where it may not fails. */
#ifndef MOCK_KERNELS_H
#define MOCK_KERNELS_H

#include "mock_backend.h"

/* A dispatch as it reached the backend. */
typedef struct described_dispatch {
  const void *pointers[SOFT_MAX_BINDINGS];
  uint64_t lengths[SOFT_MAX_BINDINGS];
  uint32_t threadgroup_memory[SOFT_MAX_BINDINGS];
  uint32_t binding_count, threadgroup_memory_count, grid[3], threadgroup[3];
  bool threads;
} described_dispatch;

void mock_gate_close(void);
void mock_gate_open(void);
/* Waits until `count` dispatches of "wait" have arrived since the gate was closed; false after ten seconds. */
bool mock_gate_await(int count);
/* Dispatches run so far. */
int mock_executed(void);
/* Modules, functions and whatever the backend gave out, and was not given back. */
int mock_live(void);

#endif
