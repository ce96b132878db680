/* matmul_<B>_<T>: c = op(a) op(b) + bias. Contract in args.h.
 *
 * Geometry: one thread for each element of c: dispatchThreads (n, m, batch), threadgroups of (32, 8, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"

template <typename T, typename Stored, typename Reader>
[[kernel]] void matmul(device const T *a [[buffer(MATMUL_A)]], device const Stored *b [[buffer(MATMUL_B)]],
                       device const T *bias [[buffer(MATMUL_BIAS)]], device T *c [[buffer(MATMUL_C)]],
                       constant matmul_args &args [[buffer(MATMUL_ARGS)]], uint3 position [[thread_position_in_grid]]) {
  uint j = position.x, i = position.y;
  ulong z = position.z;
  if (j >= args.n || i >= args.m || z >= args.batch) return;

  ulong a_start = z * args.a_batch_stride + (args.transpose_a ? ulong(i) : i * args.a_row_stride);
  ulong a_step = args.transpose_a ? args.a_row_stride : 1;
  ulong b_start = z * args.b_batch_stride + (args.transpose_b ? j * args.b_row_stride : ulong(j));
  ulong b_step = args.transpose_b ? 1 : args.b_row_stride;
  float sum = 0;
  for (uint x = 0; x < args.k; ++x)
    sum += float(a[a_start + x * a_step]) * Reader::at(b, b_start + x * b_step);
  if (args.has_bias) sum += float(bias[j]);
  c[z * args.c_batch_stride + i * args.c_row_stride + j] = T(sum);
}

#define MATMUL(NAME, T, STORED, READER) \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul<T, STORED, READER>) matmul<T, STORED, READER>;

MATMUL("matmul_f32_f32", float, float, plain)
MATMUL("matmul_f16_f32", float, half, plain)
MATMUL("matmul_bf16_f32", float, ushort, bfloat16)
MATMUL("matmul_q8_0_f32", float, uchar, q8_0)
MATMUL("matmul_q4_0_f32", float, uchar, q4_0)
MATMUL("matmul_q4_1_f32", float, uchar, q4_1)
MATMUL("matmul_q5_0_f32", float, uchar, q5_0)
MATMUL("matmul_q5_1_f32", float, uchar, q5_1)
MATMUL("matmul_q2_k_f32", float, uchar, q2_k)
MATMUL("matmul_q3_k_f32", float, uchar, q3_k)
MATMUL("matmul_q4_k_f32", float, uchar, q4_k)
MATMUL("matmul_q5_k_f32", float, uchar, q5_k)
MATMUL("matmul_q6_k_f32", float, uchar, q6_k)
MATMUL("matmul_iq4_nl_f32", float, uchar, iq4_nl)
MATMUL("matmul_f32_f16", half, float, plain)
MATMUL("matmul_f16_f16", half, half, plain)
MATMUL("matmul_bf16_f16", half, ushort, bfloat16)
MATMUL("matmul_q8_0_f16", half, uchar, q8_0)
MATMUL("matmul_q4_0_f16", half, uchar, q4_0)
MATMUL("matmul_q4_1_f16", half, uchar, q4_1)
MATMUL("matmul_q5_0_f16", half, uchar, q5_0)
MATMUL("matmul_q5_1_f16", half, uchar, q5_1)
MATMUL("matmul_q2_k_f16", half, uchar, q2_k)
MATMUL("matmul_q3_k_f16", half, uchar, q3_k)
MATMUL("matmul_q4_k_f16", half, uchar, q4_k)
MATMUL("matmul_q5_k_f16", half, uchar, q5_k)
MATMUL("matmul_q6_k_f16", half, uchar, q6_k)
MATMUL("matmul_iq4_nl_f16", half, uchar, iq4_nl)
