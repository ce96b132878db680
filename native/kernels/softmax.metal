/* softmax of each row. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads.
 *
 * The largest score, the sum, the division: three passes, so that no exponential overflows (Milakov & Gimelshein 2018,
 * arXiv:1805.02867, algorithm 2). A lane takes every 32nd element, so that a SIMD-group reads consecutive memory;
 * simd_max and simd_sum (Metal Shading Language Specification, section 6.9.2) put the lanes' parts together without
 * threadgroup memory or a barrier. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void softmax(device const float *x [[buffer(SOFTMAX_X)]],
                        device float *out [[buffer(SOFTMAX_OUT)]],
                        constant softmax_args &args [[buffer(SOFTMAX_ARGS)]],
                        uint row [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  device const float *from = x + row * args.x_row_stride;
  device float *to = out + row * args.out_row_stride;

  float largest = -INFINITY;
  for (uint j = lane; j < args.width; j += 32) largest = max(largest, args.scale * from[j]);
  largest = simd_max(largest);
  /* Nothing but -infinity: the formula says NaN, which fast math would not. Compared as bits for the same reason. */
  bool nothing = as_type<uint>(largest) == 0xff800000u;

  float sum = 0;
  for (uint j = lane; j < args.width; j += 32) {
    float exponential = precise::exp(args.scale * from[j] - largest);
    to[j] = exponential;
    sum += exponential;
  }
  sum = simd_sum(sum);
  for (uint j = lane; j < args.width; j += 32) to[j] = nothing ? as_type<float>(0x7fc00000u) : to[j] / sum;
}
