/* <metal_math>, <metal_common>, <metal_relational>, <metal_integer> and <metal_geometric> (specification 3.1, sections
 * 6.2 to 6.9). Half and bfloat are computed in float and rounded once, which is within their stated error. */
#ifndef MSL_MATH_H
#define MSL_MATH_H

#include "functions.h"
#include "vector.h"

namespace msl {
/* What a floating-point function returns for an argument of type T: integers are taken as floats. */
template <class T> using real = metal::conditional_t<metal::is_floating_point_v<T>, T, float>;
template <class T> using if_real = metal::enable_if_t<metal::is_floating_point_v<T>, int>;
template <class T> using if_integer = metal::enable_if_t<metal::is_integral_v<T>, int>;
/* An integer where a float is wanted. The conversion is one of a class, so that a function of the user's own for
 * integers is the better match, as it is where only floats are taken. */
struct integer {
  float value;
  template <class T, if_integer<T> = 0> MSL_INLINE constexpr integer(T x) : value((float)x) {}
};

MSL_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
MSL_INLINE float fract(float x) {
  float fraction = x - __builtin_floorf(x);
  return fraction < 1.0f ? fraction : 0x1.fffffep-1f;
}
MSL_INLINE float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x != x ? 0.0f : x; }
MSL_INLINE float saturate(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
MSL_INLINE float sinpi(float x) {
  return msl::sin((x - 2.0f * __builtin_rintf(x * 0.5f)) * 3.14159265358979323846f);
}
MSL_INLINE float cospi(float x) {
  return msl::cos((x - 2.0f * __builtin_rintf(x * 0.5f)) * 3.14159265358979323846f);
}
MSL_INLINE float tanpi(float x) { return msl::tan((x - __builtin_rintf(x)) * 3.14159265358979323846f); }
MSL_INLINE float exp10(float x) { return msl::pow(10.0f, x); }
/* Of what is between 0 and 1. */
template <class T> MSL_INLINE T smoothstep(T t) { return (T)(t * t * ((T)3.0f - (T)2.0f * t)); }

/* A packed vector as one that can be computed with; anything else as it is. */
template <class T> MSL_INLINE T unpacked(T value) { return value; }
template <class T, int N> MSL_INLINE metal::vec<T, N> unpacked(metal::packed_vec<T, N> value) { return value; }
}

namespace metal {

/* ----------------------------------------------------------------------------------- one floating-point argument -- */

#define MSL_MATH1(name, function)                                                                              \
  template <class T, msl::if_real<T> = 0> MSL_INLINE T name(T x) { return (T)function((float)x); }             \
  MSL_INLINE float name(msl::integer x) { return function(x.value); }                                          \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> x) { MSL_COMPONENTS(T, N, name(x[i])) }        \
  template <class T, int N> MSL_INLINE vec<T, N> name(packed_vec<T, N> x) { return name(vec<T, N>(x)); }
/* Those that exist as precise:: and fast:: too. */
#define MSL_EACH_MATH1(M)                                                                                      \
  M(exp, msl::exp) M(exp2, msl::exp2) M(exp10, msl::exp10) M(log, msl::log)                  \
  M(log2, msl::log2) M(log10, msl::log10) M(sqrt, __builtin_sqrtf) M(rsqrt, msl::rsqrt)            \
  M(sin, msl::sin) M(cos, msl::cos) M(tan, msl::tan) M(asin, msl::asin)                \
  M(acos, msl::acos) M(atan, msl::atan) M(sinh, msl::sinh) M(cosh, msl::cosh)          \
  M(tanh, msl::tanh) M(asinh, msl::asinh) M(acosh, msl::acosh) M(atanh, msl::atanh)    \
  M(sinpi, msl::sinpi) M(cospi, msl::cospi) M(tanpi, msl::tanpi) M(floor, __builtin_floorf)                    \
  M(ceil, __builtin_ceilf) M(round, __builtin_roundf) M(rint, __builtin_rintf) M(trunc, __builtin_truncf)      \
  M(fract, msl::fract) M(sign, msl::sign) M(saturate, msl::saturate) M(fabs, __builtin_fabsf)
MSL_EACH_MATH1(MSL_MATH1)

template <class T, msl::if_scalar<T> = 0> MSL_INLINE T abs(T x) {
  if constexpr (is_floating_point_v<T>) return (T)__builtin_fabsf((float)x);
  else if constexpr (is_unsigned_v<T>) return x;
  else return (T)(x < 0 ? -x : x);
}
template <class T, int N> MSL_INLINE vec<T, N> abs(vec<T, N> x) { MSL_COMPONENTS(T, N, abs(x[i])) }
template <class T, int N> MSL_INLINE vec<T, N> abs(packed_vec<T, N> x) { return abs(vec<T, N>(x)); }

#define MSL_CLASSIFY(name, function)                                                                           \
  template <class T, msl::if_scalar<T> = 0> MSL_INLINE bool name(T x) { return function((float)x); }           \
  template <class T, int N> MSL_INLINE vec<bool, N> name(vec<T, N> x) { MSL_COMPONENTS(bool, N, name(x[i])) }
MSL_CLASSIFY(isnan, __builtin_isnan)
MSL_CLASSIFY(isinf, __builtin_isinf)
MSL_CLASSIFY(isfinite, __builtin_isfinite)
MSL_CLASSIFY(signbit, __builtin_signbit)
#undef MSL_CLASSIFY
template <class A, class B> MSL_INLINE auto isunordered(A a, B b) { return isnan(a) || isnan(b); }
template <class A, class B> MSL_INLINE auto isordered(A a, B b) { return !isunordered(a, b); }
template <class T, msl::if_scalar<T> = 0> MSL_INLINE bool isnormal(T x) {
  return isfinite(x) && abs(x) >= numeric_limits<T>::min();
}
template <class T, int N> MSL_INLINE vec<bool, N> isnormal(vec<T, N> x) { MSL_COMPONENTS(bool, N, isnormal(x[i])) }

/* --------------------------------------------------------------------------------------- two and three arguments -- */

/* `expression` is in a and b, of type T; an operand of a vector function may be a scalar. */
#define MSL_MATH2(name, expression)                                                                            \
  template <class A, class B, msl::if_scalar<A> = 0, msl::if_scalar<B> = 0>                                    \
  MSL_INLINE msl::common_t<A, B> name(A left, B right) {                                                       \
    using T = msl::common_t<A, B>;                                                                             \
    T a = (T)left, b = (T)right;                                                                               \
    return (T)(expression);                                                                                    \
  }                                                                                                            \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> a, vec<T, N> b) {                              \
    MSL_COMPONENTS(T, N, name(a[i], b[i]))                                                                     \
  }                                                                                                            \
  template <class T, int N, class U, msl::if_scalar<U> = 0> MSL_INLINE vec<T, N> name(vec<T, N> a, U b) {      \
    MSL_COMPONENTS(T, N, name(a[i], (T)b))                                                                     \
  }                                                                                                            \
  template <class T, int N, class U, msl::if_scalar<U> = 0> MSL_INLINE vec<T, N> name(U a, vec<T, N> b) {      \
    MSL_COMPONENTS(T, N, name((T)a, b[i]))                                                                     \
  }                                                                                                            \
  template <class T, int N, class B> MSL_INLINE vec<T, N> name(packed_vec<T, N> a, B b) {                      \
    return name(vec<T, N>(a), msl::unpacked(b));                                                               \
  }                                                                                                            \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> a, packed_vec<T, N> b) {                       \
    return name(a, vec<T, N>(b));                                                                              \
  }
/* A NaN is a missing value: the other operand is the result. */
MSL_MATH2(max, (a < b || a != a) ? b : a)
MSL_MATH2(min, (b < a || a != a) ? b : a)
MSL_MATH2(fmax, (a < b || a != a) ? b : a)
MSL_MATH2(fmin, (b < a || a != a) ? b : a)
MSL_MATH2(pow, msl::pow((float)a, (float)b))
MSL_MATH2(powr, msl::pow((float)a, (float)b))
MSL_MATH2(fmod, msl::fmod((float)a, (float)b))
MSL_MATH2(atan2, msl::atan2((float)a, (float)b))
MSL_MATH2(copysign, __builtin_copysignf((float)a, (float)b))
MSL_MATH2(fdim, msl::fdim((float)a, (float)b))
MSL_MATH2(nextafter, msl::nextafter((float)a, (float)b))
MSL_MATH2(step, (T)(b < a ? 0.0f : 1.0f))
MSL_MATH2(divide, a / b)

#define MSL_MATH3(name, expression)                                                                            \
  template <class A, class B, class C, msl::if_scalar<A> = 0, msl::if_scalar<B> = 0, msl::if_scalar<C> = 0>    \
  MSL_INLINE msl::common_t<msl::common_t<A, B>, C> name(A first, B second, C third) {                          \
    using T = msl::common_t<msl::common_t<A, B>, C>;                                                           \
    T a = (T)first, b = (T)second, c = (T)third;                                                               \
    return (T)(expression);                                                                                    \
  }                                                                                                            \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> a, vec<T, N> b, vec<T, N> c) {                 \
    MSL_COMPONENTS(T, N, name(a[i], b[i], c[i]))                                                               \
  }                                                                                                            \
  template <class T, int N, class U, msl::if_scalar<U> = 0>                                                    \
  MSL_INLINE vec<T, N> name(vec<T, N> a, vec<T, N> b, U c) {                                                   \
    MSL_COMPONENTS(T, N, name(a[i], b[i], (T)c))                                                               \
  }                                                                                                            \
  template <class T, int N, class U, class V, msl::if_scalar<U> = 0, msl::if_scalar<V> = 0>                    \
  MSL_INLINE vec<T, N> name(vec<T, N> a, U b, V c) {                                                           \
    MSL_COMPONENTS(T, N, name(a[i], (T)b, (T)c))                                                               \
  }                                                                                                            \
  template <class T, int N, class U, class V, msl::if_scalar<U> = 0, msl::if_scalar<V> = 0>                    \
  MSL_INLINE vec<T, N> name(U a, V b, vec<T, N> c) {                                                           \
    MSL_COMPONENTS(T, N, name((T)a, (T)b, c[i]))                                                               \
  }                                                                                                            \
  template <class T, int N, class B, class C> MSL_INLINE vec<T, N> name(packed_vec<T, N> a, B b, C c) {        \
    return name(vec<T, N>(a), msl::unpacked(b), msl::unpacked(c));                                             \
  }
MSL_MATH3(clamp, a < b ? b : c < a ? c : a)
MSL_MATH3(mix, a + (b - a) * c)
MSL_MATH3(mad, a * b + c)
MSL_MATH3(max3, max(a, max(b, c)))
MSL_MATH3(min3, min(a, min(b, c)))
MSL_MATH3(fmax3, max(a, max(b, c)))
MSL_MATH3(fmin3, min(a, min(b, c)))
MSL_MATH3(median3, max(min(a, b), min(max(a, b), c)))
MSL_MATH3(fmedian3, max(min(a, b), min(max(a, b), c)))
MSL_MATH3(fma, __builtin_fmaf((float)a, (float)b, (float)c))
MSL_MATH3(smoothstep, msl::smoothstep(clamp((T)((c - a) / (b - a)), (T)0.0f, (T)1.0f)))

template <class A, class B, msl::if_scalar<A> = 0, msl::if_scalar<B> = 0>
MSL_INLINE msl::common_t<A, B> select(A no, B yes, bool which) {
  using T = msl::common_t<A, B>;
  return which ? (T)yes : (T)no;
}
template <class T, int N> MSL_INLINE vec<T, N> select(vec<T, N> no, vec<T, N> yes, bool which) {
  return which ? yes : no;
}
template <class T, int N> MSL_INLINE vec<T, N> select(vec<T, N> no, vec<T, N> yes, vec<bool, N> which) {
  MSL_COMPONENTS(T, N, which[i] ? yes[i] : no[i])
}

/* A scalar stands for as many of it. */
template <class T, int N, class U, msl::if_scalar<U> = 0>
MSL_INLINE vec<T, N> select(U no, vec<T, N> yes, vec<bool, N> which) {
  return select(vec<T, N>(no), yes, which);
}
template <class T, int N, class U, msl::if_scalar<U> = 0>
MSL_INLINE vec<T, N> select(vec<T, N> no, U yes, vec<bool, N> which) {
  return select(no, vec<T, N>(yes), which);
}

/* ---------------------------------------------------------------------------------------------- with other types -- */

template <class T, msl::if_real<T> = 0> MSL_INLINE T ldexp(T x, int exponent) {
  return (T)msl::ldexp((float)x, exponent);
}
template <class T, int N> MSL_INLINE vec<T, N> ldexp(vec<T, N> x, vec<int, N> exponent) {
  MSL_COMPONENTS(T, N, ldexp(x[i], exponent[i]))
}
template <class T, msl::if_real<T> = 0> MSL_INLINE T frexp(T x, int &exponent) {
  return (T)msl::frexp((float)x, exponent);
}
template <class T, int N> MSL_INLINE vec<T, N> ldexp(vec<T, N> x, int exponent) {
  return ldexp(x, vec<int, N>(exponent));
}
template <class T, int N> MSL_INLINE vec<T, N> frexp(vec<T, N> x, vec<int, N> &exponent) {
  MSL_COMPONENTS(T, N, frexp(x[i], exponent[i]))
}
template <class T, msl::if_real<T> = 0> MSL_INLINE int ilogb(T x) { return msl::ilogb((float)x); }
template <class T, int N> MSL_INLINE vec<int, N> ilogb(vec<T, N> x) { MSL_COMPONENTS(int, N, ilogb(x[i])) }
template <class T, msl::if_real<T> = 0> MSL_INLINE T modf(T x, T &whole) {
  whole = (T)__builtin_truncf((float)x);
  return (T)__builtin_copysignf(__builtin_isinf((float)x) ? 0.0f : (float)x - (float)whole, (float)x);
}
template <class T, int N> MSL_INLINE vec<T, N> modf(vec<T, N> x, vec<T, N> &whole) {
  MSL_COMPONENTS(T, N, modf(x[i], whole[i]))
}
template <class T, msl::if_real<T> = 0> MSL_INLINE T sincos(T x, T &cosine) {
  cosine = cos(x);
  return sin(x);
}
template <class T, int N> MSL_INLINE vec<T, N> sincos(vec<T, N> x, vec<T, N> &cosine) {
  cosine = cos(x);
  return sin(x);
}

/* ------------------------------------------------------------------------------------------------------ integers -- */

#define MSL_INTEGER1(name, expression)                                                                         \
  template <class T, msl::if_integer<T> = 0> MSL_INLINE T name(T x) {                                          \
    using U = make_unsigned_t<T>;                                                                              \
    constexpr int bits = 8 * sizeof(T);                                                                        \
    (void)bits;                                                                                                \
    return (T)(expression);                                                                                    \
  }                                                                                                            \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> x) { MSL_COMPONENTS(T, N, name(x[i])) }
MSL_INTEGER1(popcount, __builtin_popcountll((U)x))
MSL_INTEGER1(clz, (U)x ? __builtin_clzll((U)x) - (64 - bits) : bits)
MSL_INTEGER1(ctz, (U)x ? __builtin_ctzll((U)x) : bits)
MSL_INTEGER1(reverse_bits, __builtin_bitreverse64((U)x) >> (64 - bits))
#undef MSL_INTEGER1

#define MSL_INTEGER2(name, expression)                                                                         \
  template <class A, class B, msl::if_integer<A> = 0, msl::if_integer<B> = 0>                                  \
  MSL_INLINE msl::common_t<A, B> name(A left, B right) {                                                       \
    using T = msl::common_t<A, B>;                                                                             \
    constexpr int bits = 8 * sizeof(T);                                                                        \
    (void)bits;                                                                                                \
    T x = (T)left, y = (T)right;                                                                               \
    return (T)(expression);                                                                                    \
  }                                                                                                            \
  template <class T, int N> MSL_INLINE vec<T, N> name(vec<T, N> x, vec<T, N> y) {                              \
    MSL_COMPONENTS(T, N, name(x[i], y[i]))                                                                     \
  }
MSL_INTEGER2(mulhi, ((__int128)x * (__int128)y) >> bits)
MSL_INTEGER2(mul24, x *y)
MSL_INTEGER2(absdiff, x > y ? x - y : y - x)
MSL_INTEGER2(hadd, ((__int128)x + (__int128)y) >> 1)
MSL_INTEGER2(rhadd, ((__int128)x + (__int128)y + 1) >> 1)
MSL_INTEGER2(addsat, clamp((__int128)x + y, (__int128)numeric_limits<T>::min(), (__int128)numeric_limits<T>::max()))
MSL_INTEGER2(subsat, clamp((__int128)x - y, (__int128)numeric_limits<T>::min(), (__int128)numeric_limits<T>::max()))
MSL_INTEGER2(rotate, ((make_unsigned_t<T>)x << (y & (bits - 1))) |
                         ((make_unsigned_t<T>)x >> ((bits - (y & (bits - 1))) & (bits - 1))))
#undef MSL_INTEGER2
template <class T, msl::if_integer<T> = 0> MSL_INLINE T mad24(T x, T y, T z) { return (T)(x * y + z); }
template <class T, msl::if_integer<T> = 0> MSL_INLINE T madhi(T x, T y, T z) { return (T)(mulhi(x, y) + z); }
template <class T, msl::if_integer<T> = 0> MSL_INLINE T madsat(T x, T y, T z) {
  return (T)clamp((__int128)x * y + z, (__int128)numeric_limits<T>::min(), (__int128)numeric_limits<T>::max());
}
template <class T, msl::if_integer<T> = 0> MSL_INLINE T extract_bits(T x, uint offset, uint bits) {
  constexpr uint width = 8 * sizeof(T);
  if (bits == 0) return 0;
  return (T)((T)((make_unsigned_t<T>)x << (width - bits - offset)) >> (width - bits));
}
template <class T, msl::if_integer<T> = 0> MSL_INLINE T insert_bits(T base, T insert, uint offset, uint bits) {
  using U = make_unsigned_t<T>;
  U mask = bits >= 8 * sizeof(T) ? (U)~(U)0 : (U)((((U)1 << bits) - 1) << offset);
  return (T)(((U)base & ~mask) | (((U)insert << offset) & mask));
}

template <class T, int N> MSL_INLINE vec<T, N> extract_bits(vec<T, N> x, uint offset, uint bits) {
  MSL_COMPONENTS(T, N, extract_bits(x[i], offset, bits))
}
template <class T, int N>
MSL_INLINE vec<T, N> insert_bits(vec<T, N> base, vec<T, N> insert, uint offset, uint bits) {
  MSL_COMPONENTS(T, N, insert_bits(base[i], insert[i], offset, bits))
}

/* ------------------------------------------------------------------------------------------------------ geometry -- */

template <class T, int N> MSL_INLINE T dot(vec<T, N> a, vec<T, N> b) {
  T sum = a[0] * b[0];
  _Pragma("unroll") for (int i = 1; i < N; i++) sum += a[i] * b[i];
  return sum;
}
template <class T, int N> MSL_INLINE T dot(packed_vec<T, N> a, packed_vec<T, N> b) {
  return dot(vec<T, N>(a), vec<T, N>(b));
}
template <class T, int N> MSL_INLINE T dot(packed_vec<T, N> a, vec<T, N> b) { return dot(vec<T, N>(a), b); }
template <class T, int N> MSL_INLINE T dot(vec<T, N> a, packed_vec<T, N> b) { return dot(a, vec<T, N>(b)); }
template <class T, int N> MSL_INLINE T length_squared(vec<T, N> a) { return dot(a, a); }
template <class T, int N> MSL_INLINE T length(vec<T, N> a) { return sqrt(dot(a, a)); }
template <class T, int N> MSL_INLINE T length_squared(packed_vec<T, N> a) { return length_squared(vec<T, N>(a)); }
template <class T, int N> MSL_INLINE T length(packed_vec<T, N> a) { return length(vec<T, N>(a)); }
template <class T, int N> MSL_INLINE T distance(vec<T, N> a, vec<T, N> b) { return length(a - b); }
template <class T, int N> MSL_INLINE T distance_squared(vec<T, N> a, vec<T, N> b) { return length_squared(a - b); }
template <class T, int N> MSL_INLINE vec<T, N> normalize(vec<T, N> a) { return a * rsqrt(dot(a, a)); }
template <class T, int N> MSL_INLINE vec<T, N> normalize(packed_vec<T, N> a) { return normalize(vec<T, N>(a)); }
template <class T> MSL_INLINE vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
  return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
template <class T, int N> MSL_INLINE vec<T, N> reflect(vec<T, N> i, vec<T, N> n) {
  return i - n * ((T)2.0f * dot(n, i));
}
template <class T, int N> MSL_INLINE vec<T, N> refract(vec<T, N> i, vec<T, N> n, T eta) {
  T d = dot(n, i), k = (T)1.0f - eta * eta * ((T)1.0f - d * d);
  return k < (T)0.0f ? vec<T, N>((T)0.0f) : i * eta - n * (eta * d + sqrt(k));
}
template <class T, int N> MSL_INLINE vec<T, N> faceforward(vec<T, N> n, vec<T, N> i, vec<T, N> reference) {
  return dot(reference, i) < (T)0.0f ? n : -n;
}

#define MSL_USING(name, function) using metal::name;
#define MSL_VARIANT(space)                                                                                     \
  namespace space {                                                                                            \
  MSL_EACH_MATH1(MSL_USING)                                                                                    \
  using metal::abs; using metal::atan2; using metal::clamp; using metal::copysign; using metal::distance;      \
  using metal::divide; using metal::dot; using metal::fdim; using metal::fma; using metal::fmax;               \
  using metal::fmin; using metal::fmod; using metal::frexp; using metal::isfinite; using metal::isinf;         \
  using metal::isnan; using metal::ldexp; using metal::length; using metal::max; using metal::min;             \
  using metal::mix; using metal::modf; using metal::normalize; using metal::pow; using metal::powr;            \
  using metal::sincos; using metal::smoothstep; using metal::step;                                             \
  }
MSL_VARIANT(precise)
MSL_VARIANT(fast)
#undef MSL_VARIANT
#undef MSL_USING

/* ----------------------------------------------------------------------------------- <metal_pack> (section 6.10) -- */

MSL_INLINE float4 unpack_unorm4x8_to_float(uint x) {
  return float4(x & 255u, (x >> 8) & 255u, (x >> 16) & 255u, x >> 24) / 255.0f;
}
MSL_INLINE float4 unpack_snorm4x8_to_float(uint x) {
  return max(float4((char)x, (char)(x >> 8), (char)(x >> 16), (char)(x >> 24)) / 127.0f, -1.0f);
}
MSL_INLINE float2 unpack_unorm2x16_to_float(uint x) { return float2(x & 65535u, x >> 16) / 65535.0f; }
MSL_INLINE float2 unpack_snorm2x16_to_float(uint x) {
  return max(float2((short)x, (short)(x >> 16)) / 32767.0f, -1.0f);
}
MSL_INLINE uint pack_float_to_unorm4x8(float4 v) {
  uint4 q = uint4(rint(saturate(v) * 255.0f));
  return q.x | q.y << 8 | q.z << 16 | q.w << 24;
}
MSL_INLINE uint pack_float_to_snorm4x8(float4 v) {
  int4 q = int4(rint(clamp(v, -1.0f, 1.0f) * 127.0f)) & 255;
  return (uint)(q.x | q.y << 8 | q.z << 16 | q.w << 24);
}
MSL_INLINE uint pack_float_to_unorm2x16(float2 v) {
  uint2 q = uint2(rint(saturate(v) * 65535.0f));
  return q.x | q.y << 16;
}
MSL_INLINE uint pack_float_to_snorm2x16(float2 v) {
  int2 q = int2(rint(clamp(v, -1.0f, 1.0f) * 32767.0f)) & 65535;
  return (uint)(q.x | q.y << 16);
}
/* 10 bits of red from the lowest up, then green and blue, then 2 of alpha. */
MSL_INLINE float4 unpack_unorm10a2_to_float(uint x) {
  return float4(x & 1023u, (x >> 10) & 1023u, (x >> 20) & 1023u, x >> 30) /
         float4(1023.0f, 1023.0f, 1023.0f, 3.0f);
}
MSL_INLINE uint pack_float_to_unorm10a2(float4 v) {
  uint4 q = uint4(rint(saturate(v) * float4(1023.0f, 1023.0f, 1023.0f, 3.0f)));
  return q.x | q.y << 10 | q.z << 20 | q.w << 30;
}
/* 5 bits of blue from the lowest up, 6 of green, 5 of red (section 6.10: unorm565). */
MSL_INLINE float3 unpack_unorm565_to_float(ushort x) {
  return float3(x >> 11, (x >> 5) & 63, x & 31) / float3(31.0f, 63.0f, 31.0f);
}
MSL_INLINE ushort pack_float_to_unorm565(float3 v) {
  uint3 q = uint3(rint(saturate(v) * float3(31.0f, 63.0f, 31.0f)));
  return (ushort)(q.x << 11 | q.y << 5 | q.z);
}
/* The transfer functions of sRGB (IEC 61966-2-1), alpha left linear. */
MSL_INLINE float4 unpack_unorm4x8_srgb_to_float(uint x) {
  float4 v = unpack_unorm4x8_to_float(x);
  float4 linear = select(pow((v + 0.055f) / 1.055f, 2.4f), v / 12.92f, v <= 0.04045f);
  return float4(linear.xyz, v.w);
}
MSL_INLINE uint pack_float_to_srgb_unorm4x8(float4 v) {
  float4 c = saturate(v);
  float4 curved = select(1.055f * pow(c, 1.0f / 2.4f) - 0.055f, c * 12.92f, c <= 0.0031308f);
  return pack_float_to_unorm4x8(float4(curved.xyz, c.w));
}
/* The same of halves. */
#define MSL_UNPACK_HALF(name, P, n) \
  MSL_INLINE half##n unpack_##name##_to_half(P x) { return half##n(unpack_##name##_to_float(x)); }
#define MSL_PACK_HALF(name, P, n) \
  MSL_INLINE P pack_half_to_##name(half##n v) { return pack_float_to_##name(float##n(v)); }
#define MSL_EACH_PACKING(M)                                                                                    \
  M(unorm4x8, uint, 4) M(snorm4x8, uint, 4) M(unorm2x16, uint, 2) M(snorm2x16, uint, 2) M(unorm10a2, uint, 4) \
  M(unorm565, ushort, 3)
MSL_EACH_PACKING(MSL_UNPACK_HALF)
MSL_EACH_PACKING(MSL_PACK_HALF)
MSL_UNPACK_HALF(unorm4x8_srgb, uint, 4)
MSL_PACK_HALF(srgb_unorm4x8, uint, 4)
#undef MSL_EACH_PACKING
#undef MSL_PACK_HALF
#undef MSL_UNPACK_HALF

}

/* Every half is computed as such, so a host without half arithmetic needs clang's helpers, which its runtime library
 * would otherwise bring. They are this library's own, for there is no such library to link. */
#if !defined(__F16C__) && !defined(__aarch64__) && !defined(__NVPTX__)
extern "C" __attribute__((weak, visibility("hidden"))) float __extendhfsf2(half value) {
  uint word = as_type<ushort>(value), sign = (word & 0x8000u) << 16, exponent = (word >> 10) & 31u,
       fraction = word & 1023u;
  if (exponent == 31u) return as_type<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0u) {
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
  }
  return as_type<float>(sign | (exponent + 112u) << 23 | fraction << 13);
}
extern "C" __attribute__((weak, visibility("hidden"))) half __truncsfhf2(float value) {
  uint word = as_type<uint>(value), sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
  ushort bits;
  if (magnitude > 0x7f800000u) bits = (ushort)(sign | 0x7e00u);
  else if (magnitude >= 0x477ff000u) bits = (ushort)(sign | 0x7c00u);
  else if (magnitude < 0x38800000u) {
    /* Adding 0.5 aligns a subnormal half's unit with a float's last bit, and the addition rounds to nearest even. */
    bits = (ushort)(sign | (as_type<uint>(as_type<float>(magnitude) + 0.5f) - 0x3f000000u));
  } else bits = (ushort)(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
  return as_type<half>(bits);
}
#endif

#endif
