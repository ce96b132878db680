/* Copies of whole rows into threadgroup memory by one thread, and barriers there that count their bytes: compute
 * capability 9.0. Kernels that use them are variants (build/ptx.rs). PTX ISA 8.4, sections 9.7.8.24 (cp.async.bulk) and
 * 9.7.12.15 (mbarrier). */
#ifndef MSL_BULK_H
#define MSL_BULK_H

#include "places.h"

namespace msl {

/* A barrier of `count` arrivals, and of the bytes that are expected, made once for the whole SIMD-group, which calls it
 * together. The thread is elected (elect.sync): of one that is known to be alone the assembler makes no loop over all
 * addresses of a SIMD-group. */
MSL_INLINE void copy_barrier_start_once(void *barrier, uint count) {
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; @p mbarrier.init.shared::cta.b64 [%0], %1; }" ::"r"(
                   shared_place(barrier)),
               "r"(count)
               : "memory");
}
/* What this thread has started can be used by copies. */
MSL_INLINE void copy_barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}
MSL_INLINE void copy_barrier_expect(void *barrier, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_place(barrier)), "r"(bytes)
               : "memory");
}
MSL_INLINE void copy_barrier_arrive(void *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_place(barrier)) : "memory");
}
/* A barrier of `threads` of the threadgroup, which some wait at and others only tell that they are there
 * (barrier.cta). */
MSL_INLINE void tell_barrier(uint threads) { asm volatile("barrier.cta.arrive 1, %0;" ::"r"(threads) : "memory"); }
MSL_INLINE void wait_at_barrier(uint threads) { asm volatile("barrier.cta.sync 1, %0;" ::"r"(threads) : "memory"); }
/* Until the barrier's phase of that parity is over. */
MSL_INLINE void copy_barrier_wait(void *barrier, uint parity) {
  uint done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_place(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
}
/* A multiple of 16 bytes, both at such ones, copied once for the whole SIMD-group, likewise. They are the first that
 * the L2 cache gives up: weights are read once. */
MSL_INLINE void bulk_copy_once(void *to, const void *from, uint bytes, void *barrier) {
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff;\n\t"
               "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1], %2, [%3], %4; }" ::"r"(shared_place(to)),
               "l"(from), "r"(bytes), "r"(shared_place(barrier)), "l"(evict_first)
               : "memory");
}

}

#endif
