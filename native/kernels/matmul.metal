/* matmul_<B>_<T>: c = op(a) op(b) + bias, one thread for each element of c. Contract in args.h. The kernel for what the
 * others are not meant
 * for: few rows of a by a matrix that is not transposed, where neighbouring threads read neighbouring elements of b.
 *
 * Geometry: one thread for each element of c: dispatchThreads (n, m, batch), threadgroups of (32, 8, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"

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

MATMUL("matmul_f32_f32", float, float, f32)
MATMUL("matmul_f16_f32", float, half, f16)
MATMUL("matmul_bf16_f32", float, ushort, bf16)
MATMUL("matmul_f32_f16", half, float, f32)
MATMUL("matmul_f16_f16", half, half, f16)
MATMUL("matmul_bf16_f16", half, ushort, bf16)
