/* <metal_simdgroup_matrix>: 8x8 matrices that the threads of a SIMD-group hold together, two elements each
 * (specification 3.1, section 6.7). Loads and stores touch a thread's own elements only; a product needs the
 * others'. */
#ifndef MSL_SIMDGROUP_MATRIX_H
#define MSL_SIMDGROUP_MATRIX_H

#include "matrix_place.h"
#include "simd.h"

namespace metal {

template <class T, int Columns, int Rows> struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(is_floating_point_v<T>, "simdgroup matrices hold float, half or bfloat");
  typedef vec<T, 2> storage_type;
  storage_type elements;

  simdgroup_matrix() = default;
  MSL_INLINE explicit simdgroup_matrix(T diagonal) {
    msl::matrix_place place(msl::lane_index());
    elements = storage_type(place.row == place.column ? diagonal : (T)0.0f,
                            place.row == place.column + 1 ? diagonal : (T)0.0f);
  }
  MSL_INLINE storage_type &thread_elements() { return elements; }
  MSL_INLINE const storage_type &thread_elements() const { return elements; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns, int Rows = Columns>
MSL_INLINE simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> result;
  result.elements = vec<T, 2>(value);
  return result;
}
template <class T, int Columns, int Rows = Columns>
MSL_INLINE simdgroup_matrix<T, Columns, Rows> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, Columns, Rows>(value);
}

template <class T, class S>
MSL_INLINE void simdgroup_load(simdgroup_matrix<T, 8, 8> &d, const S *source, ulong row_stride = 8,
                               ulong2 origin = ulong2(0), bool transpose = false) {
  static_assert(is_same_v<T, remove_cv_t<S>>, "simdgroup_load needs memory of the matrix's own type");
  msl::matrix_place place(msl::lane_index());
  source += origin.y * row_stride + origin.x;
  for (uint i = 0; i < 2; i++) {
    ulong row = place.row, column = place.column + i;
    d.elements[i] = transpose ? source[column * row_stride + row] : source[row * row_stride + column];
  }
}
template <class T, class S>
MSL_INLINE void simdgroup_store(simdgroup_matrix<T, 8, 8> a, S *destination, ulong row_stride = 8,
                                ulong2 origin = ulong2(0), bool transpose = false) {
  static_assert(is_same_v<T, S>, "simdgroup_store needs memory of the matrix's own type");
  msl::matrix_place place(msl::lane_index());
  destination += origin.y * row_stride + origin.x;
  for (uint i = 0; i < 2; i++) {
    ulong row = place.row, column = place.column + i;
    destination[transpose ? column * row_stride + row : row * row_stride + column] = a.elements[i];
  }
}

template <class D, class A, class B, class C>
MSL_INLINE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a,
                                              const simdgroup_matrix<B, 8, 8> &b, const simdgroup_matrix<C, 8, 8> &c,
                                              MSL_SITE) {
  float left[2] = {(float)a.elements.x, (float)a.elements.y};
  float right[2] = {(float)b.elements.x, (float)b.elements.y};
  float sum[2] = {(float)c.elements.x, (float)c.elements.y};
  msl::multiply_accumulate(sum, left, right, sum, MSL_HERE);
  d.elements = vec<D, 2>((D)sum[0], (D)sum[1]);
}
template <class D, class A, class B>
MSL_INLINE void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a,
                                   const simdgroup_matrix<B, 8, 8> &b, MSL_SITE) {
  simdgroup_matrix<float, 8, 8> zero = make_filled_simdgroup_matrix<float, 8>(0.0f);
  simdgroup_multiply_accumulate(d, a, b, zero, msl_line, msl_column);
}
template <class T>
MSL_INLINE simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8> &a, const simdgroup_matrix<T, 8, 8> &b) {
  simdgroup_matrix<T, 8, 8> result;
  simdgroup_multiply(result, a, b);
  return result;
}

}

#endif
