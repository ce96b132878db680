/* <metal_type_traits> and numeric_limits. */
#ifndef MSL_TRAITS_H
#define MSL_TRAITS_H

#include "types.h"

/* The compiler makes it of a list in braces, and wants it by this name and with these members. */
namespace std {
template <class T> class initializer_list {
  const T *first;
  size_t count;

 public:
  constexpr initializer_list() : first(nullptr), count(0) {}
  constexpr size_t size() const { return count; }
  constexpr const T *begin() const { return first; }
  constexpr const T *end() const { return first + count; }
};
}

namespace metal {
using std::initializer_list;

template <class T, T v> struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool b, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool b, class A, class B> using conditional_t = typename conditional<b, A, B>::type;
template <class... B> struct conjunction : bool_constant<(bool(B::value) && ...)> {};
template <class... B> struct disjunction : bool_constant<(bool(B::value) || ...)> {};
template <class... B> using _disjunction = disjunction<B...>;
template <class... B> using _conjunction = conjunction<B...>;
template <class B> struct negation : bool_constant<!bool(B::value)> {};

template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T &> { using type = T; };
template <class T> struct remove_reference<T &&> { using type = T; };
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv { using type = typename remove_volatile<typename remove_const<T>::type>::type; };
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T *> { using type = T; };
template <class T> struct remove_pointer<T *const> { using type = T; };
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, size_t n> struct remove_extent<T[n]> { using type = T; };
template <class T> struct add_const { using type = const T; };
template <class T> struct add_lvalue_reference { using type = T &; };
template <class T> struct add_rvalue_reference { using type = T &&; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using decay_t = remove_cvref_t<T>;
template <class T> struct remove_cvref { using type = remove_cvref_t<T>; };
template <class T> struct decay { using type = decay_t<T>; };
/* Types have lost their address spaces by the time that this is read. */
template <class T> struct remove_addrspace { using type = T; };
template <class T> using remove_addrspace_t = T;
template <class T> using uniform = T;
template <class T> MSL_INLINE constexpr T make_uniform(T value) { return value; }
template <class T> T &&declval();

template <class A, class B> constexpr bool is_same_v = __is_same(A, B);
template <class A, class B> struct is_same : bool_constant<__is_same(A, B)> {};
template <class T> constexpr bool is_void_v = __is_same(remove_cv_t<T>, void);
template <class T> constexpr bool is_integral_v = __is_integral(T);
template <class T>
constexpr bool is_floating_point_v = __is_floating_point(T) || __is_same(remove_cv_t<T>, half) ||
                                     __is_same(remove_cv_t<T>, bfloat);
template <class T> constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T> constexpr bool is_unsigned_v = __is_unsigned(T);
template <class T> constexpr bool is_signed_v = is_arithmetic_v<T> && !__is_unsigned(T);
template <class T> constexpr bool is_pointer_v = __is_pointer(T);
template <class T> constexpr bool is_enum_v = __is_enum(T);
template <class T> constexpr bool is_array_v = __is_array(T);
template <class A, class B> constexpr bool is_convertible_v = __is_convertible_to(A, B);
template <class A, class B> constexpr bool is_base_of_v = __is_base_of(A, B);
template <class T> struct is_void : bool_constant<is_void_v<T>> {};
template <class T> struct is_integral : bool_constant<is_integral_v<T>> {};
template <class T> struct is_floating_point : bool_constant<is_floating_point_v<T>> {};
template <class T> struct is_arithmetic : bool_constant<is_arithmetic_v<T>> {};
template <class T> struct is_unsigned : bool_constant<is_unsigned_v<T>> {};
template <class T> struct is_signed : bool_constant<is_signed_v<T>> {};
template <class T> struct is_pointer : bool_constant<is_pointer_v<T>> {};
template <class T> struct is_enum : bool_constant<is_enum_v<T>> {};
template <class T> struct is_array : bool_constant<is_array_v<T>> {};
template <class A, class B> struct is_convertible : bool_constant<is_convertible_v<A, B>> {};
template <class A, class B> struct is_base_of : bool_constant<is_base_of_v<A, B>> {};
template <class T> struct is_const : bool_constant<__is_const(T)> {};

template <class T> struct make_unsigned;
template <class T> struct make_signed;
#define MSL_SIGNS(S, U)                                         \
  template <> struct make_unsigned<S> { using type = U; };      \
  template <> struct make_unsigned<U> { using type = U; };      \
  template <> struct make_signed<S> { using type = S; };        \
  template <> struct make_signed<U> { using type = S; };
MSL_SIGNS(char, uchar)
MSL_SIGNS(short, ushort)
MSL_SIGNS(int, uint)
MSL_SIGNS(long, ulong)
#undef MSL_SIGNS
template <> struct make_unsigned<signed char> { using type = uchar; };
template <> struct make_signed<signed char> { using type = signed char; };
template <class T> using make_unsigned_t = typename make_unsigned<remove_cv_t<T>>::type;
template <class T> using make_signed_t = typename make_signed<remove_cv_t<T>>::type;

template <class T> struct _numeric_limits_impl;
template <class T> struct numeric_limits : _numeric_limits_impl<T> {};
template <class T> struct numeric_limits<const T> : numeric_limits<T> {};
#define MSL_INTEGER_LIMITS(T, low, high, width)                               \
  template <> struct _numeric_limits_impl<T> {                                \
    static constexpr bool is_specialized = true, is_integer = true;           \
    static constexpr bool is_signed = (low) != 0, has_infinity = false;       \
    static constexpr int digits = width;                                      \
    static constexpr T min() { return low; }                                  \
    static constexpr T max() { return high; }                                 \
    static constexpr T lowest() { return low; }                               \
    static constexpr T infinity() { return 0; }                               \
  };
MSL_INTEGER_LIMITS(bool, false, true, 1)
MSL_INTEGER_LIMITS(char, -128, 127, 7)
MSL_INTEGER_LIMITS(signed char, -128, 127, 7)
MSL_INTEGER_LIMITS(uchar, 0, 255, 8)
MSL_INTEGER_LIMITS(short, -32768, 32767, 15)
MSL_INTEGER_LIMITS(ushort, 0, 65535, 16)
MSL_INTEGER_LIMITS(int, -2147483647 - 1, 2147483647, 31)
MSL_INTEGER_LIMITS(uint, 0, 4294967295u, 32)
MSL_INTEGER_LIMITS(long, -9223372036854775807L - 1, 9223372036854775807L, 63)
MSL_INTEGER_LIMITS(ulong, 0, 18446744073709551615ul, 64)
#undef MSL_INTEGER_LIMITS
#define MSL_FLOAT_LIMITS(T, smallest, largest, unit, width)                   \
  template <> struct _numeric_limits_impl<T> {                                \
    static constexpr bool is_specialized = true, is_integer = false;          \
    static constexpr bool is_signed = true, has_infinity = true;              \
    static constexpr int digits = width;                                      \
    static constexpr T min() { return (T)smallest; }                          \
    static constexpr T max() { return (T)largest; }                           \
    static constexpr T lowest() { return (T)-largest; }                       \
    static constexpr T epsilon() { return (T)unit; }                          \
    static constexpr T infinity() { return (T)__builtin_inff(); }             \
    static constexpr T quiet_NaN() { return (T)__builtin_nanf(""); }          \
  };
MSL_FLOAT_LIMITS(float, 1.17549435e-38f, 3.40282347e+38f, 1.19209290e-07f, 24)
MSL_FLOAT_LIMITS(half, 6.103515625e-05f, 65504.0f, 0.0009765625f, 11)
MSL_FLOAT_LIMITS(bfloat, 1.17549435e-38f, 3.38953139e+38f, 0.0078125f, 8)
#undef MSL_FLOAT_LIMITS
template <class T, int N> struct vec;
template <class T, int N> struct _numeric_limits_impl<vec<T, N>> {
  using each = _numeric_limits_impl<T>;
  static constexpr bool is_specialized = true, is_integer = each::is_integer;
  static constexpr bool is_signed = each::is_signed, has_infinity = each::has_infinity;
  static constexpr int digits = each::digits;
  static constexpr vec<T, N> min() { return vec<T, N>(each::min()); }
  static constexpr vec<T, N> max() { return vec<T, N>(each::max()); }
  static constexpr vec<T, N> lowest() { return vec<T, N>(each::lowest()); }
  static constexpr vec<T, N> infinity() { return vec<T, N>(each::infinity()); }
};

}

/* The type of an expression of two scalars. */
namespace msl {
template <class A, class B> struct common { using type = decltype(A() + B()); };
template <class A> struct common<A, A> { using type = A; };
template <> struct common<half, bfloat> { using type = float; };
template <> struct common<bfloat, half> { using type = float; };
template <class A, class B> using common_t = typename common<metal::remove_cv_t<A>, metal::remove_cv_t<B>>::type;
}

#endif
