/* Matrices of 16 x 16 that a SIMD-group holds together: four of 8 x 8, [0] and [1] the upper ones. Metal has no
 * functions for them. */
#ifndef MSL_QUADS_H
#define MSL_QUADS_H

#include "../simdgroup_matrix.h"

namespace metal {

/* Rows of a that are `stride` apart, and columns of b. */
MSL_INLINE void quad_load_left(simdgroup_half8x8 *a, const half *rows, uint stride) {
  _Pragma("unroll") for (uint i = 0; i < 4; i++)
    simdgroup_load(a[i], rows + i / 2 * 8 * stride + i % 2 * 8, stride);
}
MSL_INLINE void quad_load_right(simdgroup_half8x8 *b, const half *columns, uint stride) {
  _Pragma("unroll") for (uint i = 0; i < 4; i++)
    simdgroup_load(b[i], columns + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0), true);
}
MSL_INLINE void quad_load_right(simdgroup_float8x8 *b, const float *columns, uint stride) {
  _Pragma("unroll") for (uint i = 0; i < 4; i++)
    simdgroup_load(b[i], columns + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0), true);
}
/* Rows of b that are `stride` apart. */
template <class T> MSL_INLINE void quad_load_right_rows(simdgroup_matrix<T, 8, 8> *b, const T *rows, uint stride) {
  _Pragma("unroll") for (uint i = 0; i < 4; i++)
    simdgroup_load(b[i], rows + i / 2 * 8 * stride + i % 2 * 8, stride);
}
/* sums += a b. What lies as sums do is also a left operand. */
template <class T>
MSL_INLINE void quad_multiply_accumulate(simdgroup_float8x8 *sums, const simdgroup_matrix<T, 8, 8> *a,
                                         const simdgroup_matrix<T, 8, 8> *b) {
  _Pragma("unroll") for (uint i = 0; i < 4; i++) _Pragma("unroll") for (uint x = 0; x < 2; x++)
    simdgroup_multiply_accumulate(sums[i], a[i / 2 * 2 + x], b[x * 2 + i % 2], sums[i]);
}
/* Row and column of the first of the two neighbors that a lane holds of an 8 x 8 matrix of sums. */
MSL_INLINE uint2 quad_place(uint lane) {
  msl::matrix_place place(lane);
  return uint2(place.row, place.column);
}
MSL_INLINE float2 quad_elements(const simdgroup_float8x8 &sums) { return sums.elements; }
MSL_INLINE simdgroup_float8x8 quad_matrix(float2 pair) {
  simdgroup_float8x8 result;
  result.elements = pair;
  return result;
}
MSL_INLINE simdgroup_half8x8 quad_halves(half2 pair) {
  simdgroup_half8x8 result;
  result.elements = pair;
  return result;
}
/* The four lanes that share a row are those that differ in the bits of quad_lane(0) and quad_lane(1). */
MSL_INLINE ushort quad_lane(uint i) { return i == 0 ? 1 : 8; }

}

#endif
