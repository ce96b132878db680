/* Copies into threadgroup memory that overlap what a thread does, and kernels that overlap their predecessor. Metal has
 * no such functions; this repository's standard library names the instructions of devices that have. */
#ifndef IRON_KERNELS_ASYNC_COPY_H
#define IRON_KERNELS_ASYNC_COPY_H

#ifndef __HAVE_IRONBRIDGE_ASYNC_COPY__
static inline void async_copy(threadgroup uint4 *to, device const uint4 *from) { *to = *from; }
static inline void async_copy_streamed(threadgroup uint4 *to, device const uint4 *from) { *to = *from; }
static inline void async_copy_close() {}
template <uint count> static inline void async_copy_wait() {}
static inline void allow_successor() {}
static inline void wait_for_predecessor() {}
static inline void read_ahead(device const void *) {}
#endif

#endif
