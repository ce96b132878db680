/* rms_norm. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads.
 *
 * A lane takes every 32nd element, so that a SIMD-group reads consecutive memory; simd_sum (Metal Shading Language
 * Specification, section 6.9.2) puts the lanes' parts together without threadgroup memory or a barrier. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void rms_norm(device const float *x [[buffer(RMS_NORM_X)]],
                         device const float *weight [[buffer(RMS_NORM_WEIGHT)]],
                         device float *out [[buffer(RMS_NORM_OUT)]],
                         constant rms_norm_args &args [[buffer(RMS_NORM_ARGS)]],
                         uint row [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  device const float *from = x + row * args.x_row_stride;
  device float *to = out + row * args.out_row_stride;

  float squares = 0;
  for (uint j = lane; j < args.width; j += 32) squares += from[j] * from[j];
  squares = simd_sum(squares);

  float factor = precise::rsqrt(squares / float(args.width) + args.eps);
  for (uint j = lane; j < args.width; j += 32) to[j] = from[j] * factor * weight[j];
}
