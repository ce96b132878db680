/* The sums of one row of activations, or of up to eight, with rows of weights that are numbers: what a lane of a
 * SIMD-group has of them. A thread takes four neighbouring weights, so that the 32 read consecutive memory. */
#ifndef IRON_KERNELS_SUMS_OF_NUMBERS_H
#define IRON_KERNELS_SUMS_OF_NUMBERS_H

/* a: m rows, at most M, of k activations. */
template <typename A, typename B, uint M, uint ROWS, typename T, typename Stored>
static inline void sums_of_numbers(device const T *a, ulong a_row_stride, uint m,
                                   device const Stored *const thread *rows, uint k, uint lane,
                                   thread float (*sums)[ROWS]) {
#pragma unroll
  for (uint i = 0; i < M; ++i)
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) sums[i][j] = 0;
  for (ulong x = 4 * lane; x < k; x += 128) {
    uint count = uint(min(k - x, ulong(4)));
    float4 weights[ROWS];
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) weights[j] = four_of<B>(rows[j] + x, count);
#pragma unroll
    for (uint i = 0; i < M; ++i) {
      if (i >= m) break;
      float4 values = four_of<A>(a + i * a_row_stride + x, count);
#pragma unroll
      for (uint j = 0; j < ROWS; ++j) sums[i][j] += dot(values, weights[j]);
    }
  }
}

#endif
