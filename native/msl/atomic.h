/* <metal_atomic>: relaxed atomics in device and threadgroup memory (specification 3.1, section 6.15). */
#ifndef MSL_ATOMIC_H
#define MSL_ATOMIC_H

#include "traits.h"

namespace metal {

enum memory_order { memory_order_relaxed, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

template <class T> struct _atomic {
  using value_type = T;
  T value;
};
template <class T> using atomic = _atomic<T>;
typedef _atomic<int> atomic_int;
typedef _atomic<uint> atomic_uint;
typedef _atomic<bool> atomic_bool;
typedef _atomic<ulong> atomic_ulong;
typedef _atomic<float> atomic_float;

template <class T> MSL_INLINE T atomic_load_explicit(const volatile _atomic<T> *object, memory_order) {
  T result;
  __atomic_load((T *)&object->value, &result, __ATOMIC_RELAXED);
  return result;
}
template <class T, class U> MSL_INLINE void atomic_store_explicit(volatile _atomic<T> *object, U desired,
                                                                  memory_order) {
  T value = (T)desired;
  __atomic_store((T *)&object->value, &value, __ATOMIC_RELAXED);
}
template <class T, class U> MSL_INLINE T atomic_exchange_explicit(volatile _atomic<T> *object, U desired,
                                                                  memory_order) {
  T value = (T)desired, result;
  __atomic_exchange((T *)&object->value, &value, &result, __ATOMIC_RELAXED);
  return result;
}
template <class T>
MSL_INLINE bool atomic_compare_exchange_weak_explicit(volatile _atomic<T> *object, T *expected, T desired, memory_order,
                                                      memory_order) {
  return __atomic_compare_exchange((T *)&object->value, expected, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#define MSL_ATOMIC_FETCH(name, expression)                                                                     \
  template <class T, class U>                                                                                  \
  MSL_INLINE T atomic_fetch_##name##_explicit(volatile _atomic<T> *object, U operand, memory_order order) {    \
    T a = atomic_load_explicit(object, order), b = (T)operand;                                                 \
    while (!atomic_compare_exchange_weak_explicit(object, &a, (T)(expression), order, order)) {}               \
    return a;                                                                                                  \
  }
MSL_ATOMIC_FETCH(add, a + b)
MSL_ATOMIC_FETCH(sub, a - b)
MSL_ATOMIC_FETCH(min, a < b ? a : b)
MSL_ATOMIC_FETCH(max, a > b ? a : b)
MSL_ATOMIC_FETCH(and, a &b)
MSL_ATOMIC_FETCH(or, a | b)
MSL_ATOMIC_FETCH(xor, a ^ b)
#undef MSL_ATOMIC_FETCH
template <class U> MSL_INLINE void atomic_min_explicit(volatile atomic_ulong *object, U operand, memory_order order) {
  atomic_fetch_min_explicit(object, operand, order);
}
template <class U> MSL_INLINE void atomic_max_explicit(volatile atomic_ulong *object, U operand, memory_order order) {
  atomic_fetch_max_explicit(object, operand, order);
}

}

#endif
