/* Who a thread is, barriers, the exchange of values within a SIMD-group and threadgroup memory, on NVIDIA's GPUs: a
 * SIMD-group is a warp. Instructions: PTX ISA 8.4, sections 9.7.12 and 9.7.13; clang has them as builtins. As on the
 * CPU, every thread of a SIMD-group that has not returned from the kernel calls an operation of it, so the mask names
 * all lanes: those that have exited take no part. */
#ifndef MSL_THREADS_H
#define MSL_THREADS_H

#include "../matrix_place.h"
#include "places.h"

namespace msl {

constexpr uint all_lanes = 0xffffffffu;

MSL_INLINE uint lane_index() { return __nvvm_read_ptx_sreg_laneid(); }

/* A barrier is known by its place in the code. */
#define MSL_SITE unsigned msl_line = 0, unsigned msl_column = 0
#define MSL_HERE (msl_line | msl_column)

MSL_INLINE void threadgroup_barrier(uint) { __syncthreads(); }
MSL_INLINE void simd_barrier(uint) { __nvvm_bar_warp_sync(all_lanes); }
MSL_INLINE void fence() { __nvvm_membar_gl(); }
/* Memory that every thread of the grid sees alike: not what a multiprocessor's own cache has. */
#define MSL_COHERENT volatile

MSL_INLINE int integer_dot4(uint a, uint b, int c) {
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

/* PTX ISA 8.4, section 9.7.9.25. */
MSL_INLINE void async_copy(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_place(to)), "l"(from) : "memory");
}
MSL_INLINE void async_copy_streamed(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from),
               "l"(evict_first)
               : "memory");
}
MSL_INLINE void async_copy_close() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint count> MSL_INLINE void async_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}

/* Instructions of compute capability 9.0, griddepcontrol: src/msl/ptx.rs puts them in the place of these comments for a
 * GPU that has them. At its start every kernel allows its successor and waits for its predecessor, but for those that
 * do that themselves. */
MSL_INLINE void kernel_starts() { asm volatile("// msl: kernel_starts" ::: "memory"); }
MSL_INLINE void allow_successor() { asm volatile("// msl: allow_successor" ::: "memory"); }
MSL_INLINE void wait_for_predecessor() { asm volatile("// msl: wait_for_predecessor" ::: "memory"); }

/* PTX ISA 8.4, section 9.7.9.15. */
MSL_INLINE void read_ahead(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

/* A value in the words that a shuffle moves. */
template <class T> struct words {
  static constexpr uint count = (sizeof(T) + 3) / 4;
  uint word[count];
  MSL_INLINE explicit words(T value) : word() { __builtin_memcpy(word, &value, sizeof value); }
  MSL_INLINE T value() const {
    T result;
    __builtin_memcpy(&result, word, sizeof result);
    return result;
  }
};

template <class T> MSL_INLINE T shuffle(T value, uint from, uint) {
  words<T> all(value);
  _Pragma("unroll") for (uint i = 0; i < words<T>::count; i++)
    all.word[i] = (uint)__nvvm_shfl_sync_idx_i32((int)all_lanes, (int)all.word[i], (int)from, 31);
  return all.value();
}
template <class T> MSL_INLINE T shuffle_xor(T value, uint lanes) {
  words<T> all(value);
  _Pragma("unroll") for (uint i = 0; i < words<T>::count; i++)
    all.word[i] = (uint)__nvvm_shfl_sync_bfly_i32((int)all_lanes, (int)all.word[i], (int)lanes, 31);
  return all.value();
}

/* A bit for each participant whose predicate holds. */
MSL_INLINE uint ballot(bool predicate, uint) { return __nvvm_vote_ballot_sync(all_lanes, predicate); }

/* Folds the participants' values; every thread gets the result. A whole SIMD-group does it in five steps. */
template <class Fold, class T> MSL_INLINE T reduce(T value, uint site) {
  uint lanes = ballot(true, site);
  if (lanes == all_lanes) {
    _Pragma("unroll") for (uint distance = 16; distance > 0; distance /= 2)
      value = Fold::apply(value, shuffle_xor(value, distance));
    return value;
  }
  T result = shuffle(value, (uint)__builtin_ctz(lanes), site);
  for (uint rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1)
    result = Fold::apply(result, shuffle(value, (uint)__builtin_ctz(rest), site));
  return result;
}

/* Replaces each participant's value by the fold of those below it, itself included when `inclusive`; `neutral` where
 * there is none. */
template <class Fold, bool inclusive, class T> MSL_INLINE T prefix(T value, uint site) {
  uint lanes = ballot(true, site), lane = lane_index();
  T sum = Fold::template neutral<T>();
  for (uint rest = lanes; rest != 0; rest &= rest - 1) {
    uint from = (uint)__builtin_ctz(rest);
    T other = shuffle(value, from, site);
    if (from < lane || (inclusive && from == lane)) sum = Fold::apply(sum, other);
  }
  return sum;
}

/* A quad-group is four neighbouring threads. */
template <class Fold, class T> MSL_INLINE T quad_reduce(T value, uint site) {
  uint first = lane_index() & ~3u;
  T result = shuffle(value, first, site);
  _Pragma("unroll") for (uint i = 1; i < 4; i++) result = Fold::apply(result, shuffle(value, first + i, site));
  return result;
}

/* d = a b + c, this thread's two elements of each. Exact products in float, as on the CPU. */
MSL_INLINE void multiply_accumulate(float (&d)[2], const float (&a)[2], const float (&b)[2], const float (&c)[2],
                                    uint site) {
  matrix_place place(lane_index());
  float sum[2] = {c[0], c[1]};
  _Pragma("unroll") for (uint k = 0; k < 8; k++) {
    float left = shuffle(a[k % 2], lane_of(place.row, k), site);
    uint from = lane_of(k, place.column);
    sum[0] += left * shuffle(b[0], from, site);
    sum[1] += left * shuffle(b[1], from, site);
  }
  d[0] = sum[0], d[1] = sum[1];
}

/* A threadgroup variable. `Tag` is a type of the declaration's own: each instantiation has its variable. */
template <class T, class Tag> static MSL_INLINE T &threadgroup_variable() {
  static __attribute__((address_space(3), aligned(alignof(T) > 16 ? alignof(T) : 16), loader_uninitialized))
  uchar place[sizeof(T)];
  return *(T *)&place;
}
template <class T, class Tag, class Initializer> static MSL_INLINE T &threadgroup_variable(Initializer) {
  static_assert(sizeof(Tag) == 0, "a threadgroup variable with an initializer is not supported on NVIDIA's GPUs");
  return threadgroup_variable<T, Tag>();
}

}

#endif
