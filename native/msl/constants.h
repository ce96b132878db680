/* Function constants: the bytes that MTLFunctionConstantValues was given, as a constant of the declared type. */
#ifndef MSL_CONSTANTS_H
#define MSL_CONSTANTS_H

#include "vector.h"

namespace msl {

template <int size> struct constant_bytes { uchar bytes[size]; };

template <class T, int size> MSL_INLINE constexpr T constant_component(const constant_bytes<size> &from, int i) {
  if constexpr (__is_same(T, bool)) return from.bytes[i] != 0;
  else {
    constant_bytes<sizeof(T)> own = {};
    for (unsigned b = 0; b < sizeof(T); b++) own.bytes[b] = from.bytes[i * sizeof(T) + b];
    return __builtin_bit_cast(T, own);
  }
}

template <class T, int size> MSL_INLINE constexpr T constant_value(constant_bytes<size> from) {
  using element = typename shape<T>::element;
  static_assert(size == sizeof(element) * size_of<T>, "the value given for this function constant is of another type");
  if constexpr (is_scalar<T>) return constant_component<T>(from, 0);
  else {
    T result((element)0);
    for (int i = 0; i < size_of<T>; i++) result.set(i, constant_component<element>(from, i));
    return result;
  }
}

}

#endif
