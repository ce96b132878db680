/* The factory of the software Metal device, and what Metal has no words for: the only names of this folder that the
 * bridge may use. */
#ifndef SOFTMETAL_H
#define SOFTMETAL_H

#import <Metal/Metal.h>

#include "backend.h"
#include "schedule.h" /* the bridge has hand-overs, too */

NS_ASSUME_NONNULL_BEGIN

/* A new software device (+1) over the backend of that name (backend.h), independent of any other: its own memory
 * figures, limits and planned faults.
 *
 * `configuration` is NULL or a comma-separated list, whose other entries are the backend's:
 *   max_buffer_length=BYTES     what maxBufferLength reports; a longer buffer raises NSInvalidArgumentException, as
 *                               under Apple's validation layer (default: the backend's)
 *   memory_limit=BYTES          allocations beyond this total fail as if the machine had no more (default: none)
 *   fail_allocation=N           the N-th allocation from now (1 = the next) fails, once: newBuffer… returns nil.
 *                               Every newBuffer… with valid arguments counts, newBufferWithBytesNoCopy… too
 *   fail_command_buffer=N:CODE  the N-th committed command buffer fails with MTLCommandBufferError CODE without
 *                               running, once. CODE is a number or: internal, timeout, page_fault,
 *                               access_revoked, not_permitted, out_of_memory, invalid_resource, device_removed
 *   gpu=KEY                     presents itself as that GPU: name, families, width of SIMD-groups, unified memory,
 *                               pages by which memory is charged.
 *                               apple7 (an M1, the default), apple9, intel, amd64 or paravirtual (a virtual Mac's)
 *   simd_width=N                the width of SIMD-groups that pipelines report
 *   strict=apple                holds to rules of Apple's that it does not need itself (docs/METAL.md lists them), and
 *                               ends the program where Metal's validation layer would; strict=no: not, whatever
 *                               IRONBRIDGE_SOFT_STRICT says, which is the default
 *   late=SEED                   the SEED (from 1) decides whether a command buffer's uses end, and its place in the
 *                               queue is free, before its completion handlers or after them. Without it before, and
 *                               after on a strict device
 *   after_fault=ignore          after a failed command buffer its queue executes nothing more: what is committed ends
 *                               with MTLCommandBufferErrorAccessRevoked
 *   delay_us=N                  every command buffer takes at least N microseconds
 * schedule=SEED or            while this device lives, the threads that use the bridge or a software device take turns,
 * and the SEED:THREADS              SEED (from 1) decides who runs after each hand-over: the same order with the same
 * seed (see schedule.h). The first turn is given when THREADS wait for one. For all devices of the process; while
 *                               several have one, the first one counts. For tests of what may happen at the same time
 * Of the CPU's own: count=1    runs kernels from their Metal source, and counts what they do while it is recorded
 *                               (src/backend/cpu/work.rs)
 * BYTES takes the suffixes K, M, G (powers of 1024). The two fail_ keys may be repeated.
 *
 * NULL and *error (autoreleased, NSLocalizedDescriptionKey says which key or value) when the text is not of that
 * form. */
id<MTLDevice> _Nullable SoftMetalCreateDevice(const char *backend, const char *_Nullable configuration,
                                              NSError *_Nullable *_Nullable error) NS_RETURNS_RETAINED;
/* Why the backend did not open, from the error of SoftMetalCreateDevice: SOFT_UNSUPPORTED when none has that name. */
soft_outcome SoftMetalOutcome(NSError *error);

/* Whether it is a device that SoftMetalCreateDevice made, and whether its backend is the CPU. */
BOOL SoftMetalIsDevice(id<MTLDevice> device, BOOL *isCpu);

/* Behind an allocation that failed: whether the device is lost, and why, in *text from malloc, which may be NULL. */
bool SoftMetalIsLost(id<MTLDevice> device, char *_Nullable *_Nonnull text);

/* For a buffer that is about to be written as a whole and will be read often. */
void SoftMetalExpectReads(id<MTLBuffer> buffer);

/* A new buffer (+1) of weights (backend.h), which the backend lays out; nil: there is no memory. One of the allocations
 * that fail_allocation counts. */
id<MTLBuffer> _Nullable SoftMetalNewWeights(id<MTLDevice> device, uint64_t length) NS_RETURNS_RETAINED;
/* Rows of such a buffer: weights_write and weights_read of backend.h. */
soft_outcome SoftMetalWriteWeights(id<MTLBuffer> buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                   const void *rows, uint64_t length, char *_Nullable *_Nullable text);
soft_outcome SoftMetalReadWeights(id<MTLBuffer> buffer, const soft_matrix *matrix, uint64_t first, uint64_t count,
                                  void *rows, uint64_t length, char *_Nullable *_Nullable text);

/* For who is going to call SoftMetalRun right away: commits, and wakes no thread. */
void SoftMetalCommitWithoutWaking(id<MTLCommandBuffer> commands);
/* Runs a committed command buffer, and what comes before it in its queue, on the calling thread, unless another thread
 * is at it or has to be. So it may return before the command buffer is complete, and then another thread completes it.
 * Metal's handlers run on this thread, too. */
void SoftMetalRun(id<MTLCommandBuffer> commands);

/* Nanoseconds for which whoever waits for a software device may look for the end before it sleeps; 0 while all
 * processors compute. */
uint64_t SoftMetalWaitBudget(id<MTLDevice> device);

/* The cores that each hold several threadgroups at a time; 0 where kernels are not executed so. */
uint32_t SoftMetalCores(id<MTLDevice> device);

NS_ASSUME_NONNULL_END
#endif
