/* The sums of one row of activations, or of up to eight, with rows of weights in blocks: what a lane of a SIMD-group
 * has of them. A thread takes the groups of sixteen weights that share their words, so that each word is read by one
 * thread, once. Integers are multiplied with activations as they are; their scale comes after the sum of sixteen, and
 * where weights have an offset it multiplies the sum of the activations. */
#ifndef IRON_KERNELS_SUMS_OF_BLOCKS_H
#define IRON_KERNELS_SUMS_OF_BLOCKS_H

/* a: m rows, at most M, of k activations. */
template <typename A, typename B, uint M, uint ROWS, typename T, typename Word>
static inline void sums_of_blocks(device const T *a, ulong a_row_stride, uint m, device const Word *const thread *rows,
                                  uint k, uint lane, thread float (*sums)[ROWS]) {
#pragma unroll
  for (uint i = 0; i < M; ++i)
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) sums[i][j] = 0;
  uint chunks = k / (16 * B::RUNS);
  for (uint chunk = lane; chunk < chunks; chunk += 32) {
    uint lowest = chunk / B::STEP * (B::STEP * B::RUNS) + chunk % B::STEP;
#pragma unroll
    for (uint run = 0; run < B::RUNS; ++run) {
      uint group = lowest + run * B::STEP;
      float scale[ROWS], offset[ROWS], q[ROWS][16];
#pragma unroll
      for (uint j = 0; j < ROWS; ++j)
        B::read(block_of<B>(rows[j], group), group % (B::WEIGHTS / 16), scale[j], offset[j], q[j]);
#pragma unroll
      for (uint i = 0; i < M; ++i) {
        if (i >= m) break;
        device const T *values = a + i * a_row_stride + 16 * ulong(group);
        float4 x0 = A::four(values), x1 = A::four(values + 4), x2 = A::four(values + 8), x3 = A::four(values + 12);
        float4 total = (x0 + x1) + (x2 + x3);
        float plain = (total.x + total.y) + (total.z + total.w);
#pragma unroll
        for (uint j = 0; j < ROWS; ++j) {
          thread const float *w = q[j];
          float4 sum = x0 * float4(w[0], w[1], w[2], w[3]) + x1 * float4(w[4], w[5], w[6], w[7]) +
                       x2 * float4(w[8], w[9], w[10], w[11]) + x3 * float4(w[12], w[13], w[14], w[15]);
          sums[i][j] += scale[j] * ((sum.x + sum.y) + (sum.z + sum.w));
          if (B::OFFSET) sums[i][j] += offset[j] * plain;
        }
      }
    }
  }
}

#endif
