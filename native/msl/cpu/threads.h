/* The narrow layer between the Metal standard library and what executes it: who a thread is, the barriers, the exchange
 * of values within a SIMD-group, and threadgroup memory. Each target has this header, entry.h and functions.h; the rest
 * of the library is plain arithmetic. This one asks a CPU executor through abi.h. */
#ifndef MSL_THREADS_H
#define MSL_THREADS_H

#include "../matrix_place.h"
#include "abi.h"

namespace msl {

/* The calling thread, which the top word of its stack points to. */
MSL_INLINE msl_lane *self() {
  ulong top = ((ulong)__builtin_frame_address(0) | (MSL_STACK - 1)) + 1;
  return *(msl_lane **)(top - 16);
}
MSL_INLINE uint lane_index() { return self()->index % MSL_SIMD_WIDTH; }

/* Where in the source a barrier stands; threads that wait for each other must agree on it. */
#define MSL_SITE unsigned msl_line = __builtin_LINE(), unsigned msl_column = __builtin_COLUMN()
#define MSL_HERE (msl_line << 10 | (msl_column & 1023u))

MSL_INLINE void threadgroup_barrier(uint site) {
  msl_lane *lane = self();
  lane->group->runtime->threadgroup_barrier(lane, site);
}
MSL_INLINE void simd_barrier(uint site) {
  msl_lane *lane = self();
  lane->group->runtime->simd_barrier(lane, nullptr, site);
}

/* Memory that every thread of the grid sees alike: all of it, here. */
#define MSL_COHERENT

/* What a thread wrote before is read by others after a barrier only. */
MSL_INLINE void fence() {}

MSL_INLINE int integer_dot4(uint a, uint b, int c) {
  for (uint i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
  return c;
}

MSL_INLINE void async_copy(void *to, const void *from) { __builtin_memcpy(to, from, 16); }
MSL_INLINE void async_copy_streamed(void *to, const void *from) { async_copy(to, from); }
MSL_INLINE void async_copy_close() {}
template <uint count> MSL_INLINE void async_copy_wait() {}
MSL_INLINE void allow_successor() {}
MSL_INLINE void wait_for_predecessor() {}
MSL_INLINE void read_ahead(const void *) {}

/* One operation of a SIMD-group: every thread writes below `area`, calls arrive, and then reads what the others
 * wrote. */
struct operation {
  msl_lane *lane;
  unsigned char *area;
  uint index;

  MSL_INLINE operation() : lane(self()) {
    area = lane->simdgroup->area[lane->simdgroup->operations & 1];
    index = lane->index % MSL_SIMD_WIDTH;
  }
  template <class T> MSL_INLINE void give(T value) {
    static_assert(sizeof(T) <= MSL_SLOT, "SIMD-group functions take scalars and vectors of at most 16 bytes");
    __builtin_memcpy(area + MSL_SLOT * index, &value, sizeof value);
  }
  template <class T> MSL_INLINE T take(uint from) const {
    T value;
    __builtin_memcpy(&value, area + MSL_SLOT * (from % MSL_SIMD_WIDTH), sizeof value);
    return value;
  }
  MSL_INLINE void arrive(uint site, msl_combine combine = nullptr) {
    lane->group->runtime->simd_barrier(lane, combine, site);
  }
};

template <class T> MSL_INLINE T shuffle(T value, uint from, uint site) {
  operation exchange;
  exchange.give(value);
  exchange.arrive(site);
  return exchange.take<T>(from);
}

/* Folds the participants' values from the lowest lane to the highest; every thread gets the result. */
template <class T, class Fold> struct reduction {
  static void combine(unsigned char *area, uint lanes) {
    T result;
    bool first = true;
    for (uint i = 0; i < MSL_SIMD_WIDTH; i++) {
      if (!(lanes >> i & 1)) continue;
      T value;
      __builtin_memcpy(&value, area + MSL_SLOT * i, sizeof value);
      result = first ? value : Fold::apply(result, value);
      first = false;
    }
    __builtin_memcpy(area, &result, sizeof result);
  }
};
template <class Fold, class T> MSL_INLINE T reduce(T value, uint site) {
  operation exchange;
  exchange.give(value);
  exchange.arrive(site, reduction<T, Fold>::combine);
  return exchange.take<T>(0);
}

/* Replaces each participant's value by the fold of those below it, itself included when `inclusive`; `neutral` where
 * there is none. */
template <class T, class Fold, bool inclusive> struct scan {
  static void combine(unsigned char *area, uint lanes) {
    T sum = Fold::template neutral<T>();
    for (uint i = 0; i < MSL_SIMD_WIDTH; i++) {
      if (!(lanes >> i & 1)) continue;
      T value;
      __builtin_memcpy(&value, area + MSL_SLOT * i, sizeof value);
      T next = Fold::apply(sum, value);
      T result = inclusive ? next : sum;
      __builtin_memcpy(area + MSL_SLOT * i, &result, sizeof result);
      sum = next;
    }
  }
};
template <class Fold, bool inclusive, class T> MSL_INLINE T prefix(T value, uint site) {
  operation exchange;
  exchange.give(value);
  exchange.arrive(site, scan<T, Fold, inclusive>::combine);
  return exchange.take<T>(exchange.index);
}

/* A quad-group is four neighbouring threads. Its values travel with those of the whole SIMD-group. */
template <class Fold, class T> MSL_INLINE T quad_reduce(T value, uint site) {
  operation exchange;
  exchange.give(value);
  exchange.arrive(site);
  uint first = exchange.index & ~3u;
  T result = exchange.take<T>(first);
  for (uint i = 1; i < 4; i++) result = Fold::apply(result, exchange.take<T>(first + i));
  return result;
}

/* A bit for each participant whose predicate holds. */
inline void ballot_combine(unsigned char *area, uint lanes) {
  uint votes = 0;
  for (uint i = 0; i < MSL_SIMD_WIDTH; i++)
    if (lanes >> i & 1) votes |= (uint)(area[MSL_SLOT * i] != 0) << i;
  __builtin_memcpy(area, &votes, sizeof votes);
}
MSL_INLINE uint ballot(bool predicate, uint site) {
  operation exchange;
  exchange.give((uchar)predicate);
  exchange.arrive(site, ballot_combine);
  return exchange.take<uint>(0);
}

/* d = a b + c, this thread's two elements of each. A float product is what the hardware accumulates in. */
MSL_INLINE void multiply_accumulate(float (&d)[2], const float (&a)[2], const float (&b)[2], const float (&c)[2],
                                    uint site) {
  operation exchange;
  matrix_place place(exchange.index);
  float *left = (float *)exchange.area, *right = left + 64;
  left[place.row * 8 + place.column] = a[0], left[place.row * 8 + place.column + 1] = a[1];
  right[place.row * 8 + place.column] = b[0], right[place.row * 8 + place.column + 1] = b[1];
  exchange.arrive(site);
  float sum[2] = {c[0], c[1]};
  _Pragma("unroll") for (uint k = 0; k < 8; k++) {
    float factor = left[place.row * 8 + k];
    sum[0] += factor * right[k * 8 + place.column];
    sum[1] += factor * right[k * 8 + place.column + 1];
  }
  d[0] = sum[0], d[1] = sum[1];
}

/* Threadgroup variables. Each is laid out by the linker, in a section of its own kind, and lies at the same offset in
 * the memory of every threadgroup; what is in the section itself is never used. So a kernel has room for those
 * variables that its code refers to, however many more its source declares. `Tag` is a type of the declaration's own:
 * each instantiation has its variable. */
#if defined(__APPLE__)
#define MSL_SECTION "__DATA,msl_variables"
extern unsigned char variables_start[] __asm("section$start$__DATA$msl_variables");
extern unsigned char variables_end[] __asm("section$end$__DATA$msl_variables");
#else
#define MSL_SECTION "msl_variables"
/* Weak: a kernel without variables has no such section. */
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_msl_variables[], __stop_msl_variables[];
#define variables_start __start_msl_variables
#define variables_end __stop_msl_variables
#endif
template <class T, class Tag> struct variable {
  alignas(alignof(T) > 16 ? alignof(T) : 16) static inline unsigned char place[sizeof(T)]
      __attribute__((section(MSL_SECTION))) = {};
};
template <class T, class Tag> MSL_INLINE T &threadgroup_variable() {
  return *(T *)(self()->group->variables + (variable<T, Tag>::place - variables_start));
}

/* The same with an initializer: the first thread of the group that comes here stores what it gives. Fresh memory has
 * all bits set. */
template <class Tag> struct is_fresh {};
template <class T, class Tag, class Initializer> MSL_INLINE T &threadgroup_variable(Initializer initialize) {
  T &place = threadgroup_variable<T, Tag>();
  uint &fresh = threadgroup_variable<uint, is_fresh<Tag>>();
  if (fresh) fresh = 0, initialize(place);
  return place;
}

}

#endif
