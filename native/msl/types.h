/* The scalar types of the Metal Shading Language (specification 3.1, section 2.1), with no header of the host's C
 * library. */
#ifndef MSL_TYPES_H
#define MSL_TYPES_H

#define MSL_INLINE inline __attribute__((always_inline))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;
typedef _Float16 half;

namespace msl {
template <bool> struct if_true {};
template <> struct if_true<true> { typedef int type; };

/* Of a struct that our own kernels refer to in constant memory, and that the host always passes by value: `value`. */
template <class T> struct only_by_value { enum { value = 0 }; };
}

/* A class and not clang's __bf16: that one has no arithmetic before clang 17, none on some hosts, and no conversion to
 * half. */
struct bfloat {
  ushort bits;

  bfloat() = default;
  MSL_INLINE constexpr bfloat(float value) : bits(rounded(__builtin_bit_cast(uint, value))) {}
  MSL_INLINE constexpr operator float() const { return __builtin_bit_cast(float, (uint)bits << 16); }
  /* Of a class that is a number by a conversion of its own, of which C++ takes one only. */
  template <class U, typename msl::if_true<__is_class(U) && __is_convertible_to(const U &, float)>::type = 0>
  MSL_INLINE bfloat &operator=(const U &other) {
    return *this = bfloat((float)other);
  }

 private:
  /* To nearest, ties to even; a NaN stays one. */
  static MSL_INLINE constexpr ushort rounded(uint word) {
    if ((word & 0x7fffffffu) > 0x7f800000u) return (ushort)((word >> 16) | 0x40u);
    return (ushort)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
};

/* Arithmetic of two bfloats is a bfloat; with any other type it is a float by bfloat's conversion. Templates, because a
 * plain function would make the mixed form ambiguous. */
namespace msl {
template <class T> struct if_bfloat {};
template <> struct if_bfloat<bfloat> { typedef bfloat type; };
}
#define MSL_BFLOAT_OPERATOR(op)                                                                                \
  template <class T> MSL_INLINE constexpr typename msl::if_bfloat<T>::type operator op(T a, T b) {             \
    return bfloat((float)a op (float)b);                                                                       \
  }                                                                                                            \
  template <class U> MSL_INLINE bfloat &operator op##=(bfloat &a, U b) {                                       \
    return a = bfloat((float)a op (float)b);                                                                   \
  }
MSL_BFLOAT_OPERATOR(+)
MSL_BFLOAT_OPERATOR(-)
MSL_BFLOAT_OPERATOR(*)
MSL_BFLOAT_OPERATOR(/)
#undef MSL_BFLOAT_OPERATOR
/* An operand of `?:` beside one of type Other (src/msl/rewrite/ternary.rs): a float of a bfloat, unless both are. */
namespace msl {
template <class T> struct is_bfloat { static constexpr bool value = false; };
template <> struct is_bfloat<bfloat> { static constexpr bool value = true; };
template <class T> struct is_bfloat<const T> : is_bfloat<T> {};
template <class T> struct is_bfloat<T &> : is_bfloat<T> {};
template <class T> struct is_bfloat<T &&> : is_bfloat<T> {};
template <class T, bool becomes_float> struct operand_type { typedef T type; };
template <class T> struct operand_type<T, true> { typedef float type; };
template <class Other, class T>
MSL_INLINE constexpr typename operand_type<T, is_bfloat<T>::value && !is_bfloat<Other>::value>::type
operand(T &&value) {
  return static_cast<T &&>(value);
}
}
MSL_INLINE constexpr bfloat operator-(bfloat a) { return bfloat(-(float)a); }
MSL_INLINE constexpr bfloat operator+(bfloat a) { return a; }

MSL_INLINE constexpr half operator""h(long double value) { return (half)value; }
MSL_INLINE constexpr half operator""H(long double value) { return (half)value; }
MSL_INLINE constexpr half operator""h(unsigned long long value) { return (half)value; }
MSL_INLINE constexpr half operator""H(unsigned long long value) { return (half)value; }

namespace metal {
using ::uchar;
using ::ushort;
using ::uint;
using ::ulong;
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::size_t;
using ::ptrdiff_t;
using ::half;
using ::bfloat;
}

#endif
