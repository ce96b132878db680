/* matvec_<B>_<T> and matvec_narrow_<B>_<T>, B a type of blocks: c = a op(b) + bias for one row of a, and for up to
 * eight. Contract in args.h.
 *
 * As in matvec.metal, but for what a thread takes: the groups of sixteen weights that share their words, so that each
 * word of b is read by one thread, once. Integers are multiplied with activations as they are; their scale comes after
 * the sum of sixteen, and where weights have an offset it multiplies the sum of the activations. After
 * kernel_mul_mv_q*_f32_impl of llama.cpp (ggml/src/ggml-metal/ggml-metal.metal) and, for the narrow form,
 * kernel_mul_mv_ext_q4x4_f32_impl.
 *
 * Geometry: threadgroups of 64 threads (narrow: 128), each for 8 columns and all rows of c: (n / 8, 1, batch), rounded
 * up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"

/* M: rows of a at most; ROWS: of b, for a SIMD-group. */
template <typename T, typename A, typename Word, typename B, uint M, uint ROWS>
[[kernel]] void matvec(device const T *a [[buffer(MATMUL_A)]], device const Word *b [[buffer(MATMUL_B)]],
                       device const T *bias [[buffer(MATMUL_BIAS)]], device T *c [[buffer(MATMUL_C)]],
                       constant matmul_args &args [[buffer(MATMUL_ARGS)]],
                       uint3 position [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  uint first = position.x * 8 + simdgroup * ROWS;
  if (first >= args.n) return;
  ulong z = position.z, row_words = args.b_row_stride / B::WEIGHTS * B::WORDS;
  a += z * args.a_batch_stride;
  b += z * args.b_batch_stride / B::WEIGHTS * B::WORDS;
  c += z * args.c_batch_stride;
  uint m = M == 1 ? 1 : args.m;

  float sums[M][ROWS];
#pragma unroll
  for (uint i = 0; i < M; ++i)
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) sums[i][j] = 0;
  uint chunks = args.k / (16 * B::RUNS);
  for (uint chunk = lane; chunk < chunks; chunk += 32) {
    uint lowest = chunk / B::STEP * (B::STEP * B::RUNS) + chunk % B::STEP;
#pragma unroll
    for (uint run = 0; run < B::RUNS; ++run) {
      uint group = lowest + run * B::STEP;
      float scale[ROWS], offset[ROWS], q[ROWS][16];
      /* Past the last column stands the last one again; its sums are not written. */
#pragma unroll
      for (uint j = 0; j < ROWS; ++j) {
        device const Word *row = b + min(first + j, args.n - 1) * row_words;
        B::read(block_of<B>(row, group), group % (B::WEIGHTS / 16), scale[j], offset[j], q[j]);
      }
#pragma unroll
      for (uint i = 0; i < M; ++i) {
        if (i >= m) break;
        device const T *values = a + i * args.a_row_stride + 16 * ulong(group);
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

#pragma unroll
  for (uint i = 0; i < M; ++i) {
    if (i >= m) break;
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) {
      float sum = simd_sum(sums[i][j]);
      if (lane > 0 || first + j >= args.n) continue;
      if (args.has_bias) sum += float(bias[first + j]);
      c[i * args.c_row_stride + first + j] = T(sum);
    }
  }
}

#define MATVEC(NAME, T, A, WORD, B, M, ROWS) \
  template [[host_name(#NAME)]] [[kernel]] decltype(matvec<T, A, WORD, B, M, ROWS>) matvec<T, A, WORD, B, M, ROWS>;

#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale)       \
  MATVEC(matvec_##name##_f32, float, f32, WORD_##alignment, name, 1, 4)       \
  MATVEC(matvec_##name##_f16, half, f16, WORD_##alignment, name, 1, 4)        \
  MATVEC(matvec_narrow_##name##_f32, float, f32, WORD_##alignment, name, 8, 2) \
  MATVEC(matvec_narrow_##name##_f16, half, f16, WORD_##alignment, name, 8, 2)
#include "dtypes.def"
