/* Matrices of 16 x 16 that a SIMD-group holds together: four of 8 x 8, [0] and [1] the upper ones. Metal has no
 * functions for them; this repository's standard library names the instructions of devices that have, which may place
 * elements as they like: `quad_place` says where. */
#ifndef IRON_KERNELS_MATRIX_QUADS_H
#define IRON_KERNELS_MATRIX_QUADS_H

#ifndef __HAVE_IRONBRIDGE_QUADS__
/* Rows of a that are `stride` apart. */
static inline void quad_load_left(thread simdgroup_half8x8 *a, threadgroup const half *rows, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; ++i) simdgroup_load(a[i], rows + i / 2 * 8 * stride + i % 2 * 8, stride, ulong2(0, 0), false);
}
/* Columns of b that are `stride` apart. */
static inline void quad_load_right(thread simdgroup_half8x8 *b, threadgroup const half *columns, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; ++i)
    simdgroup_load(b[i], columns + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0, 0), true);
}
static inline void quad_load_right(thread simdgroup_float8x8 *b, threadgroup const float *columns, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; ++i)
    simdgroup_load(b[i], columns + i % 2 * 8 * stride + i / 2 * 8, stride, ulong2(0, 0), true);
}
/* Rows of b that are `stride` apart. */
static inline void quad_load_right_rows(thread simdgroup_half8x8 *b, threadgroup const half *rows, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; ++i) simdgroup_load(b[i], rows + i / 2 * 8 * stride + i % 2 * 8, stride, ulong2(0, 0), false);
}
static inline void quad_load_right_rows(thread simdgroup_float8x8 *b, threadgroup const float *rows, uint stride) {
#pragma unroll
  for (uint i = 0; i < 4; ++i) simdgroup_load(b[i], rows + i / 2 * 8 * stride + i % 2 * 8, stride, ulong2(0, 0), false);
}
/* sums += a b. What lies as sums do is also a left operand. */
static inline void quad_multiply_accumulate(thread simdgroup_float8x8 *sums, thread const simdgroup_half8x8 *a,
                                            thread const simdgroup_half8x8 *b) {
#pragma unroll
  for (uint i = 0; i < 4; ++i)
#pragma unroll
    for (uint x = 0; x < 2; ++x)
      simdgroup_multiply_accumulate(sums[i], a[i / 2 * 2 + x], b[x * 2 + i % 2], sums[i]);
}
/* The same of floats. */
static inline void quad_multiply_accumulate(thread simdgroup_float8x8 *sums, thread const simdgroup_float8x8 *a,
                                            thread const simdgroup_float8x8 *b) {
#pragma unroll
  for (uint i = 0; i < 4; ++i)
#pragma unroll
    for (uint x = 0; x < 2; ++x)
      simdgroup_multiply_accumulate(sums[i], a[i / 2 * 2 + x], b[x * 2 + i % 2], sums[i]);
}
/* Row (x) and column (y) of the first of the two neighbors that a lane holds of an 8 x 8 matrix of sums: as MLX has it,
 * mlx/backend/metal/kernels/steel/attn/mma.h. */
static inline uint2 quad_place(uint lane) {
  return uint2((lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2);
}
static inline float2 quad_elements(simdgroup_float8x8 sums) {
  return float2(sums.thread_elements()[0], sums.thread_elements()[1]);
}
static inline simdgroup_float8x8 quad_matrix(float2 pair) {
  simdgroup_float8x8 result;
  result.thread_elements()[0] = pair.x;
  result.thread_elements()[1] = pair.y;
  return result;
}
static inline simdgroup_half8x8 quad_halves(half2 pair) {
  simdgroup_half8x8 result;
  result.thread_elements()[0] = pair.x;
  result.thread_elements()[1] = pair.y;
  return result;
}
/* The four lanes that share a row are those that differ in the bits of quad_lane(0) and quad_lane(1). */
static inline ushort quad_lane(uint i) { return i == 0 ? 1 : 8; }
#endif

#endif
