/* matvec_<B>_<T> and matvec_narrow_<B>_<T>, B a type of numbers: c = a op(b) + bias for one row of a, and for up to
 * eight, with b transposed and a not. Contract in args.h.
 *
 * Such a product is as fast as memory delivers b, so each weight is read once, for all rows of a. A SIMD-group does
 * several rows of b at a time, for which it reads a once; a thread takes four neighbouring weights, so that the 32 read
 * consecutive memory; simd_sum adds up. After kernel_mul_mv of llama.cpp (ggml/src/ggml-metal/ggml-metal.metal: several
 * rows for each SIMD-group, float4 and half4 loads), and kernel_mul_mv_ext for the narrow form. One row of a is live at
 * a time: holding all of them costs the registers that hide latency.
 *
 * Geometry: threadgroups of 64 threads (narrow: 128), each for 8 columns and all rows of c: (n / 8, 1, batch), rounded
 * up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "sums_of_numbers.h"

/* M: rows of a at most; ROWS: of b, for a SIMD-group. */
template <typename T, typename Stored, typename A, typename B, uint M, uint ROWS>
[[kernel]] void matvec(device const T *a [[buffer(MATMUL_A)]], device const Stored *b [[buffer(MATMUL_B)]],
                       device const T *bias [[buffer(MATMUL_BIAS)]], device T *c [[buffer(MATMUL_C)]],
                       constant matmul_args &args [[buffer(MATMUL_ARGS)]],
                       uint3 position [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  uint first = position.x * 8 + simdgroup * ROWS;
  if (first >= args.n) return;
  ulong z = position.z;
  a += z * args.a_batch_stride;
  b += z * args.b_batch_stride;
  c += z * args.c_batch_stride;
  uint m = M == 1 ? 1 : args.m;

  /* Past the last column stands the last one again; its sums are not written. */
  device const Stored *rows[ROWS];
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) rows[j] = b + min(first + j, args.n - 1) * args.b_row_stride;
  float sums[M][ROWS];
  sums_of_numbers<A, B, M, ROWS>(a, args.a_row_stride, m, rows, args.k, lane, sums);

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

#define MATVEC(NAME, T, STORED, A, B, M, ROWS)                                                 \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec<T, STORED, A, B, M, ROWS>) \
      matvec<T, STORED, A, B, M, ROWS>;

MATVEC("matvec_f32_f32", float, float, f32, f32, 1, 4)
MATVEC("matvec_f16_f32", float, half, f32, f16, 1, 4)
MATVEC("matvec_bf16_f32", float, ushort, f32, bf16, 1, 4)
MATVEC("matvec_f32_f16", half, float, f16, f32, 1, 4)
MATVEC("matvec_f16_f16", half, half, f16, f16, 1, 4)
MATVEC("matvec_bf16_f16", half, ushort, f16, bf16, 1, 4)
MATVEC("matvec_narrow_f32_f32", float, float, f32, f32, 8, 2)
MATVEC("matvec_narrow_f16_f32", float, half, f32, f16, 8, 2)
MATVEC("matvec_narrow_bf16_f32", float, ushort, f32, bf16, 8, 2)
MATVEC("matvec_narrow_f32_f16", half, float, f16, f32, 8, 2)
MATVEC("matvec_narrow_f16_f16", half, half, f16, f16, 8, 2)
MATVEC("matvec_narrow_bf16_f16", half, ushort, f16, bf16, 8, 2)
