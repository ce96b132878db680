/* An executor for the software device's own tests: a few kernels whose behaviour a test can hold in its hand. It stands
 * in the place of the crate's, under the same name. */
#ifndef MOCK_EXECUTOR_H
#define MOCK_EXECUTOR_H

#include "executor.h"

/* A "source" is a list of names, each the name of one of these kernels; the word "error" in it does not compile.
 *
 *   add        out[2][i] = a[0][i] + b[1][i], count in bytes[3] (u32, float); says where a binding is missing or short
 *   describe   writes its soft_dispatch to buffer 0
 *   constants  writes the soft_constants it was made with to buffer 0
 *   wait       waits until the gate is open
 *   narrow     at most 64 threads in a threadgroup
 *   hoard      16 KiB of threadgroup memory of its own
 *   glutton    more of it than there is
 *   special    cannot be made without constants
 *   page_fault, invalid, internal, out_of_memory: that outcome, with a text
 *   silent     SOFT_INTERNAL without a text
 *   own        nothing, on the device's own threads only
 *
 * What runs on a thread where it may not fails. */

void mock_gate_close(void);
void mock_gate_open(void);
/* Waits until `count` dispatches of "wait" have arrived since the gate was closed; false after ten seconds. */
bool mock_gate_await(int count);
/* Whether threads that are not the device's own may execute; at first they may. */
void mock_take_guests(bool taken);
/* Dispatches run so far. */
int mock_executed(void);
/* Libraries, functions and strings given out and not given back. */
int mock_live(void);

#endif
