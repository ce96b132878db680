/* Names of Apple's own library that shipped code calls: the same functions, most with a last argument for fast math. */
#ifndef MSL_INTERNALS_H
#define MSL_INTERNALS_H

#include "simd.h"

#define MSL_INTERNAL1(name, function) \
  template <class A> MSL_INLINE auto __metal_##name(A a, int = 0) { return metal::name(a); }
#define MSL_INTERNAL2(name) \
  template <class A, class B> MSL_INLINE auto __metal_##name(A a, B b, int = 0) { return metal::name(a, b); }
#define MSL_INTERNAL3(name)                                                    \
  template <class A, class B, class C> MSL_INLINE auto __metal_##name(A a, B b, C c, int = 0) { \
    return metal::name(a, b, c);                                               \
  }
/* What a function has beside its result is a reference or, in some releases, a pointer. */
#define MSL_INTERNAL_OUT(name)                                                                               \
  template <class A, class B> MSL_INLINE auto __metal_##name(A a, B &b, int = 0) { return metal::name(a, b); }   \
  template <class A, class B> MSL_INLINE auto __metal_##name(A a, B *b, int = 0) { return metal::name(a, *b); }
MSL_EACH_MATH1(MSL_INTERNAL1)
MSL_INTERNAL1(abs, )
MSL_INTERNAL1(isfinite, )
MSL_INTERNAL1(isinf, )
MSL_INTERNAL1(isnan, )
MSL_INTERNAL1(isnormal, )
MSL_INTERNAL1(signbit, )
MSL_INTERNAL1(ilogb, )
MSL_INTERNAL2(atan2)
MSL_INTERNAL2(copysign)
MSL_INTERNAL2(divide)
MSL_INTERNAL2(fdim)
MSL_INTERNAL2(fmax)
MSL_INTERNAL2(fmin)
MSL_INTERNAL2(fmod)
MSL_INTERNAL2(isordered)
MSL_INTERNAL2(isunordered)
MSL_INTERNAL2(ldexp)
MSL_INTERNAL2(max)
MSL_INTERNAL2(min)
MSL_INTERNAL2(nextafter)
MSL_INTERNAL2(pow)
MSL_INTERNAL2(powr)
MSL_INTERNAL2(step)
MSL_INTERNAL3(clamp)
MSL_INTERNAL3(fma)
MSL_INTERNAL3(fmax3)
MSL_INTERNAL3(fmedian3)
MSL_INTERNAL3(fmin3)
MSL_INTERNAL3(max3)
MSL_INTERNAL3(median3)
MSL_INTERNAL3(min3)
MSL_INTERNAL3(mix)
MSL_INTERNAL3(smoothstep)
MSL_INTERNAL_OUT(frexp)
MSL_INTERNAL_OUT(modf)
MSL_INTERNAL_OUT(sincos)
#undef MSL_INTERNAL1
#undef MSL_INTERNAL2
#undef MSL_INTERNAL3
#undef MSL_INTERNAL_OUT
template <class A, class B, class C> MSL_INLINE auto __metal_select(A a, B b, C c) { return metal::select(a, b, c); }

#define MSL_INTERNAL_GROUP1(name) \
  template <class T> MSL_INLINE T __metal_##name(T value, MSL_SITE) { return metal::name(value, msl_line, msl_column); }
/* Of a float, which the public functions do not take, the bits. */
#define MSL_INTERNAL_BITS(name)                                                                              \
  template <class T> MSL_INLINE T __metal_##name(T value, MSL_SITE) {                                        \
    if constexpr (!__is_same(T, float)) return metal::name(value, msl_line, msl_column);                     \
    else return as_type<float>(metal::name(as_type<uint>(value), msl_line, msl_column));                     \
  }
#define MSL_INTERNAL_GROUP2(name)                                             \
  template <class T> MSL_INLINE T __metal_##name(T value, ushort n, MSL_SITE) { \
    return metal::name(value, n, msl_line, msl_column);                       \
  }
#define MSL_INTERNAL_GROUPS(group)                                                                            \
  MSL_INTERNAL_GROUP1(group##_sum) MSL_INTERNAL_GROUP1(group##_product) MSL_INTERNAL_GROUP1(group##_max)      \
  MSL_INTERNAL_GROUP1(group##_min) MSL_INTERNAL_BITS(group##_and) MSL_INTERNAL_BITS(group##_or)               \
  MSL_INTERNAL_BITS(group##_xor) MSL_INTERNAL_GROUP1(group##_broadcast_first)                                 \
  MSL_INTERNAL_GROUP2(group##_broadcast) MSL_INTERNAL_GROUP2(group##_shuffle)                                 \
  MSL_INTERNAL_GROUP2(group##_shuffle_xor) MSL_INTERNAL_GROUP2(group##_shuffle_up)                            \
  MSL_INTERNAL_GROUP2(group##_shuffle_down) MSL_INTERNAL_GROUP2(group##_shuffle_rotate_up)                    \
  MSL_INTERNAL_GROUP2(group##_shuffle_rotate_down)
MSL_INTERNAL_GROUPS(simd)
MSL_INTERNAL_GROUPS(quad)
MSL_INTERNAL_GROUP1(simd_prefix_inclusive_sum)
MSL_INTERNAL_GROUP1(simd_prefix_exclusive_sum)
MSL_INTERNAL_GROUP1(simd_prefix_inclusive_product)
MSL_INTERNAL_GROUP1(simd_prefix_exclusive_product)
#define MSL_INTERNAL_FILL(name)                                                                          \
  template <class T> MSL_INLINE T __metal_##name(T value, T filling, ushort delta, ushort modulo, MSL_SITE) { \
    return metal::name(value, filling, delta, modulo, msl_line, msl_column);                             \
  }
MSL_INTERNAL_FILL(simd_shuffle_and_fill_down)
MSL_INTERNAL_FILL(simd_shuffle_and_fill_up)
MSL_INLINE constexpr ushort __metal_get_simdgroup_size(ushort) { return 32; }
#undef MSL_INTERNAL_FILL
#undef MSL_INTERNAL_BITS
#undef MSL_INTERNAL_GROUP1
#undef MSL_INTERNAL_GROUP2
#undef MSL_INTERNAL_GROUPS

namespace metal {
template <class T> struct __is_valid_simdgroup_type : bool_constant<is_arithmetic_v<T> || is_vector_v<T>> {};
}

#endif
