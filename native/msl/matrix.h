/* Matrices of float and half, by columns (specification 3.1, sections 2.3 and 6.7). */
#ifndef MSL_MATRIX_H
#define MSL_MATRIX_H

#include "math.h"

namespace metal {

template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];

  matrix() = default;
  template <class U, msl::if_scalar<U> = 0> MSL_INLINE explicit constexpr matrix(U diagonal) : columns() {
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++) columns[c].set(r, c == r ? (T)diagonal : (T)0.0f);
  }
  template <class... V, enable_if_t<sizeof...(V) == C && (is_same_v<V, vec<T, R>> && ...), int> = 0>
  MSL_INLINE constexpr matrix(V... v) : columns{v...} {}
  template <class... S, enable_if_t<sizeof...(S) == C * R && (msl::is_scalar<S> && ...), int> = 0>
  MSL_INLINE constexpr matrix(S... s) : columns() {
    T values[] = {(T)s...};
    for (int c = 0; c < C; c++)
      for (int r = 0; r < R; r++) columns[c].set(r, values[c * R + r]);
  }
  template <class U, enable_if_t<!is_same_v<U, T>, int> = 0> MSL_INLINE explicit matrix(const matrix<U, C, R> &m) {
    for (int c = 0; c < C; c++) columns[c] = vec<T, R>(m.columns[c]);
  }
  MSL_INLINE vec<T, R> &operator[](size_t c) { return columns[c]; }
  MSL_INLINE const vec<T, R> &operator[](size_t c) const { return columns[c]; }
};

template <class T, int C, int R> MSL_INLINE vec<T, R> operator*(const matrix<T, C, R> &m, vec<T, C> v) {
  vec<T, R> sum = m[0] * v[0];
  for (int c = 1; c < C; c++) sum += m[c] * v[c];
  return sum;
}
template <class T, int C, int R> MSL_INLINE vec<T, C> operator*(vec<T, R> v, const matrix<T, C, R> &m) {
  vec<T, C> result;
  for (int c = 0; c < C; c++) result[c] = dot(v, m[c]);
  return result;
}
template <class T, int C, int R, int K>
MSL_INLINE matrix<T, C, R> operator*(const matrix<T, K, R> &a, const matrix<T, C, K> &b) {
  matrix<T, C, R> result;
  for (int c = 0; c < C; c++) result[c] = a * b[c];
  return result;
}
template <class T, int C, int R, class U, msl::if_scalar<U> = 0>
MSL_INLINE matrix<T, C, R> operator*(matrix<T, C, R> m, U s) {
  for (int c = 0; c < C; c++) m[c] *= s;
  return m;
}
template <class T, int C, int R, class U, msl::if_scalar<U> = 0>
MSL_INLINE matrix<T, C, R> operator*(U s, matrix<T, C, R> m) {
  return m * s;
}
#define MSL_MATRIX_SUM(op)                                                                        \
  template <class T, int C, int R>                                                                \
  MSL_INLINE matrix<T, C, R> operator op(matrix<T, C, R> a, const matrix<T, C, R> &b) {           \
    for (int c = 0; c < C; c++) a[c] = a[c] op b[c];                                              \
    return a;                                                                                     \
  }                                                                                               \
  template <class T, int C, int R>                                                                \
  MSL_INLINE matrix<T, C, R> &operator op##=(matrix<T, C, R> &a, const matrix<T, C, R> &b) {      \
    return a = a op b;                                                                            \
  }
MSL_MATRIX_SUM(+)
MSL_MATRIX_SUM(-)
#undef MSL_MATRIX_SUM
template <class T, int C, int R> MSL_INLINE matrix<T, C, R> operator-(matrix<T, C, R> m) {
  for (int c = 0; c < C; c++) m[c] = -m[c];
  return m;
}
template <class T, int C, int R, class U, msl::if_scalar<U> = 0>
MSL_INLINE matrix<T, C, R> operator/(matrix<T, C, R> m, U s) {
  for (int c = 0; c < C; c++) m[c] /= s;
  return m;
}
template <class T, int C, int R, class B> MSL_INLINE matrix<T, C, R> &operator*=(matrix<T, C, R> &a, B b) {
  return a = a * b;
}

template <class T, int C, int R> MSL_INLINE matrix<T, R, C> transpose(const matrix<T, C, R> &m) {
  matrix<T, R, C> result;
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++) result[r][c] = m[c][r];
  return result;
}
template <class T> MSL_INLINE T determinant(const matrix<T, 2, 2> &m) { return m[0][0] * m[1][1] - m[1][0] * m[0][1]; }
template <class T> MSL_INLINE T determinant(const matrix<T, 3, 3> &m) { return dot(m[0], cross(m[1], m[2])); }
template <class T> MSL_INLINE T determinant(const matrix<T, 4, 4> &m) {
  T sum = (T)0.0f;
  for (int c = 0; c < 4; c++) {
    matrix<T, 3, 3> minor;
    for (int k = 0, n = 0; k < 4; k++)
      if (k != c) minor[n++] = m[k].yzw;
    T term = m[c][0] * determinant(minor);
    sum = (c & 1) ? sum - term : sum + term;
  }
  return sum;
}

}

#define MSL_MATRIX_NAME(T, C, R)              \
  typedef metal::matrix<T, C, R> T##C##x##R;  \
  namespace metal {                           \
  using ::T##C##x##R;                         \
  }
#define MSL_MATRIX_NAMES(T)                                                                        \
  MSL_MATRIX_NAME(T, 2, 2) MSL_MATRIX_NAME(T, 2, 3) MSL_MATRIX_NAME(T, 2, 4) MSL_MATRIX_NAME(T, 3, 2) \
  MSL_MATRIX_NAME(T, 3, 3) MSL_MATRIX_NAME(T, 3, 4) MSL_MATRIX_NAME(T, 4, 2) MSL_MATRIX_NAME(T, 4, 3) \
  MSL_MATRIX_NAME(T, 4, 4)
MSL_MATRIX_NAMES(half)
MSL_MATRIX_NAMES(float)
#undef MSL_MATRIX_NAMES
#undef MSL_MATRIX_NAME

#endif
