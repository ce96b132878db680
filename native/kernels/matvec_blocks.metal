/* matvec_<B>_<T> and matvec_narrow_<B>_<T>, B a type of blocks: c = a op(b) + bias for one row of a, and for up to
 * eight. Contract in args.h.
 *
 * As in matvec.metal, but for what a thread takes (sums_of_blocks.h). After kernel_mul_mv_q*_f32_impl of llama.cpp
 * (ggml/src/ggml-metal/ggml-metal.metal) and, for the narrow form, kernel_mul_mv_ext_q4x4_f32_impl.
 *
 * Geometry: threadgroups of 64 threads (narrow: 128), each for 8 columns and all rows of c: (n / 8, 1, batch), rounded
 * up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "sums_of_blocks.h"

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

  /* Past the last column stands the last one again; its sums are not written. */
  device const Word *rows[ROWS];
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) rows[j] = b + min(first + j, args.n - 1) * row_words;
  float sums[M][ROWS];
  sums_of_blocks<A, B, M, ROWS>(a, args.a_row_stride, m, rows, args.k, lane, sums);

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
