/* <metal_compute>, <metal_simdgroup> and <metal_quadgroup>: barriers and the functions of a SIMD-group of 32 threads
 * (specification 3.1, sections 6.9.1 to 6.9.3). */
#ifndef MSL_SIMD_H
#define MSL_SIMD_H

#include "atomic.h"
#include "math.h"
#include "threads.h"

namespace metal {

enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
};
MSL_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }

enum memory_scope { memory_scope_thread, memory_scope_simdgroup, memory_scope_threadgroup, memory_scope_device };

MSL_INLINE void threadgroup_barrier(mem_flags, MSL_SITE) { msl::threadgroup_barrier(MSL_HERE); }
MSL_INLINE void simdgroup_barrier(mem_flags, MSL_SITE) { msl::simd_barrier(MSL_HERE); }
/* A barrier orders all memory that the target has, whatever the scope. */
MSL_INLINE void threadgroup_barrier(mem_flags, memory_scope, MSL_SITE) { msl::threadgroup_barrier(MSL_HERE); }
MSL_INLINE void simdgroup_barrier(mem_flags, memory_scope, MSL_SITE) { msl::simd_barrier(MSL_HERE); }
MSL_INLINE void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  msl::fence();
}

}

namespace metal {
/* c plus the sum of the products of four signed bytes each: of this library and not of Metal's. */
MSL_INLINE int integer_dot4(uint a, uint b, int c) { return msl::integer_dot4(a, b, c); }

/* Copies of 16 bytes that go on while the thread does. A thread closes a group of its own copies, and waits until at
 * most `count` of its groups are under way; others of its SIMD-group see the bytes after a barrier behind that. What is
 * streamed is read once: caches give it up first. */
MSL_INLINE void async_copy(uint4 *to, const uint4 *from) { msl::async_copy(to, from); }
MSL_INLINE void async_copy_streamed(uint4 *to, const uint4 *from) { msl::async_copy_streamed(to, from); }
MSL_INLINE void async_copy_close() { msl::async_copy_close(); }
template <uint count> MSL_INLINE void async_copy_wait() { msl::async_copy_wait<count>(); }

/* A kernel may start before the one before it has ended, as soon as that allows it. What the one before writes is there
 * after wait_for_predecessor, which each thread of such a kernel calls. Where kernels do not overlap both do
 * nothing. */
MSL_INLINE void allow_successor() { msl::allow_successor(); }
MSL_INLINE void wait_for_predecessor() { msl::wait_for_predecessor(); }

/* Brings the 128 bytes around this one into a cache of all cores. What a load has later is what is there then. */
MSL_INLINE void read_ahead(const void *from) { msl::read_ahead(from); }
}

namespace msl {
/* A shuffle of any value: those of more than 16 bytes in pieces. */
template <class T> MSL_INLINE T shuffle_any(T value, uint from, uint site) {
  if constexpr (sizeof(T) <= 16) return shuffle(value, from, site);
  else {
    struct pieces { uint4 piece[(sizeof(T) + 15) / 16]; } all = {};
    __builtin_memcpy(&all, &value, sizeof value);
    for (uint4 &piece : all.piece) piece = shuffle(piece, from, site);
    __builtin_memcpy(&value, &all, sizeof value);
    return value;
  }
}

/* The folds of the reductions; `neutral` leaves any other operand as it is. */
#define MSL_FOLD(name, expression, start)                                            \
  struct name {                                                                      \
    template <class T> static MSL_INLINE T apply(T a, T b) { return (T)(expression); } \
    template <class T> static MSL_INLINE T neutral() { return (T)(start); }          \
  };
MSL_FOLD(sum, a + b, 0)
MSL_FOLD(product, a *b, 1)
MSL_FOLD(maximum, metal::max(a, b), 0)
MSL_FOLD(minimum, metal::min(a, b), 0)
MSL_FOLD(conjunction, a &b, 0)
MSL_FOLD(disjunction, a | b, 0)
MSL_FOLD(difference, a ^ b, 0)
#undef MSL_FOLD
}

namespace msl {
/* Apple's own header lets nothing else into its functions: numbers of at most 32 bits and vectors of such. */
template <class T> using simd_element = typename shape<T>::element;
template <class T>
constexpr bool is_simd_operand = size_of<T> > 0 && sizeof(simd_element<T>) <= 4 &&
                                 !metal::is_same_v<simd_element<T>, bool> &&
                                 !metal::is_same_v<simd_element<T>, bfloat>;
template <class T> constexpr bool is_simd_integer = is_simd_operand<T> && metal::is_integral_v<simd_element<T>>;
}
#ifdef MSL_APPLE_RULES
#define MSL_OPERAND(T) \
  static_assert(msl::is_simd_operand<T>, "Metal's SIMD-group functions take numbers of at most 32 bits, no bool or bfloat")
#define MSL_INTEGER_OPERAND(T) \
  static_assert(msl::is_simd_integer<T>, "simd_and, simd_or and simd_xor take integers of at most 32 bits")
#else
#define MSL_OPERAND(T) (void)0
#define MSL_INTEGER_OPERAND(T) (void)0
#endif

namespace metal {

#define MSL_REDUCE(name, fold, check)                                                                   \
  template <class T> MSL_INLINE T simd_##name(T value, MSL_SITE) {                                      \
    check(T);                                                                                           \
    return msl::reduce<msl::fold>(value, MSL_HERE);                                                     \
  }                                                                                                     \
  template <class T> MSL_INLINE T quad_##name(T value, MSL_SITE) {                                      \
    check(T);                                                                                           \
    return msl::quad_reduce<msl::fold>(value, MSL_HERE);                                                \
  }
MSL_REDUCE(sum, sum, MSL_OPERAND)
MSL_REDUCE(product, product, MSL_OPERAND)
MSL_REDUCE(max, maximum, MSL_OPERAND)
MSL_REDUCE(min, minimum, MSL_OPERAND)
MSL_REDUCE(and, conjunction, MSL_INTEGER_OPERAND)
MSL_REDUCE(or, disjunction, MSL_INTEGER_OPERAND)
MSL_REDUCE(xor, difference, MSL_INTEGER_OPERAND)
#undef MSL_REDUCE

#define MSL_PREFIX(name)                                                                                \
  template <class T> MSL_INLINE T simd_prefix_inclusive_##name(T value, MSL_SITE) {                     \
    MSL_OPERAND(T);                                                                                     \
    return msl::prefix<msl::name, true>(value, MSL_HERE);                                               \
  }                                                                                                     \
  template <class T> MSL_INLINE T simd_prefix_exclusive_##name(T value, MSL_SITE) {                     \
    MSL_OPERAND(T);                                                                                     \
    return msl::prefix<msl::name, false>(value, MSL_HERE);                                              \
  }
MSL_PREFIX(sum)
MSL_PREFIX(product)
#undef MSL_PREFIX

/* `lane` is the calling thread's index in its group, `delta` the argument, `from` the thread whose value is taken. */
#define MSL_SHUFFLE(name, first, width, from)                                                           \
  template <class T> MSL_INLINE T name(T value, ushort delta, MSL_SITE) {                               \
    MSL_OPERAND(T);                                                                                     \
    uint whole = msl::lane_index(), lane = whole % width;                                               \
    (void)lane;                                                                                         \
    return msl::shuffle_any(value, (first) + (from), MSL_HERE);                                         \
  }
#define MSL_SHUFFLES(prefix, width)                                                                     \
  MSL_SHUFFLE(prefix##_shuffle, whole - lane, width, delta % width)                                     \
  MSL_SHUFFLE(prefix##_broadcast, whole - lane, width, delta % width)                                   \
  MSL_SHUFFLE(prefix##_shuffle_xor, whole - lane, width, (lane ^ delta) % width)                        \
  MSL_SHUFFLE(prefix##_shuffle_down, whole - lane, width, lane + delta < width ? lane + delta : lane)   \
  MSL_SHUFFLE(prefix##_shuffle_up, whole - lane, width, lane >= delta ? lane - delta : lane)            \
  MSL_SHUFFLE(prefix##_shuffle_rotate_down, whole - lane, width, (lane + delta) % width)                \
  MSL_SHUFFLE(prefix##_shuffle_rotate_up, whole - lane, width, (lane + width - delta % width) % width)
MSL_SHUFFLES(simd, 32u)
MSL_SHUFFLES(quad, 4u)
#undef MSL_SHUFFLES
#undef MSL_SHUFFLE

/* Threads that would read past an end of the group (of `modulo` threads) take the filling data from the other end. */
template <class T>
MSL_INLINE T simd_shuffle_and_fill_down(T value, T filling, ushort delta, ushort modulo = 32, MSL_SITE) {
  MSL_OPERAND(T);
  uint lane = msl::lane_index(), base = lane - lane % modulo, from = lane % modulo + delta;
  T here = msl::shuffle(value, base + from % modulo, MSL_HERE),
    fill = msl::shuffle(filling, base + from % modulo, MSL_HERE);
  return from < modulo ? here : fill;
}
template <class T>
MSL_INLINE T simd_shuffle_and_fill_up(T value, T filling, ushort delta, ushort modulo = 32, MSL_SITE) {
  MSL_OPERAND(T);
  uint lane = msl::lane_index(), base = lane - lane % modulo, from = lane % modulo + modulo - delta % modulo;
  T here = msl::shuffle(value, base + from % modulo, MSL_HERE),
    fill = msl::shuffle(filling, base + from % modulo, MSL_HERE);
  return from >= modulo ? here : fill;
}

struct simd_vote {
  typedef ulong vote_t;
  MSL_INLINE explicit constexpr simd_vote(vote_t votes = 0) : votes(votes) {}
  MSL_INLINE explicit constexpr operator vote_t() const { return votes; }
  MSL_INLINE constexpr bool all() const { return votes == 0xffffffffu; }
  MSL_INLINE constexpr bool any() const { return votes != 0; }

 private:
  vote_t votes;
};
MSL_INLINE simd_vote simd_ballot(bool predicate, MSL_SITE) { return simd_vote(msl::ballot(predicate, MSL_HERE)); }
MSL_INLINE simd_vote simd_active_threads_mask(MSL_SITE) { return simd_vote(msl::ballot(true, MSL_HERE)); }
MSL_INLINE bool simd_any(bool predicate, MSL_SITE) { return msl::ballot(predicate, MSL_HERE) != 0; }
MSL_INLINE bool simd_all(bool predicate, MSL_SITE) { return msl::ballot(!predicate, MSL_HERE) == 0; }
MSL_INLINE bool simd_is_first(MSL_SITE) {
  return (uint)__builtin_ctz(msl::ballot(true, MSL_HERE)) == msl::lane_index();
}
template <class T> MSL_INLINE T simd_broadcast_first(T value, MSL_SITE) {
  MSL_OPERAND(T);
  return msl::shuffle_any(value, (uint)__builtin_ctz(msl::ballot(true, MSL_HERE)), MSL_HERE);
}

/* The votes of the calling thread's group of four. */
struct quad_vote {
  typedef uint vote_t;
  MSL_INLINE explicit constexpr quad_vote(vote_t votes = 0) : votes(votes) {}
  MSL_INLINE explicit constexpr operator vote_t() const { return votes; }
  MSL_INLINE constexpr bool all() const { return votes == 15u; }
  MSL_INLINE constexpr bool any() const { return votes != 0; }

 private:
  vote_t votes;
};
MSL_INLINE quad_vote quad_ballot(bool predicate, MSL_SITE) {
  return quad_vote(msl::ballot(predicate, MSL_HERE) >> (msl::lane_index() & ~3u) & 15u);
}
MSL_INLINE quad_vote quad_active_threads_mask(MSL_SITE) {
  return quad_vote(msl::ballot(true, MSL_HERE) >> (msl::lane_index() & ~3u) & 15u);
}
MSL_INLINE bool quad_any(bool predicate, MSL_SITE) {
  return (msl::ballot(predicate, MSL_HERE) >> (msl::lane_index() & ~3u) & 15u) != 0;
}
MSL_INLINE bool quad_all(bool predicate, MSL_SITE) {
  return (msl::ballot(!predicate, MSL_HERE) >> (msl::lane_index() & ~3u) & 15u) == 0;
}
template <class T> MSL_INLINE T quad_broadcast_first(T value, MSL_SITE) {
  uint first = msl::lane_index() & ~3u, active = msl::ballot(true, MSL_HERE) >> first & 15u;
  return msl::shuffle_any(value, first + (uint)__builtin_ctz(active), MSL_HERE);
}
MSL_INLINE bool quad_is_first(MSL_SITE) {
  uint lane = msl::lane_index(), active = msl::ballot(true, MSL_HERE) >> (lane & ~3u) & 15u;
  return (uint)__builtin_ctz(active) == (lane & 3u);
}

}

#endif
