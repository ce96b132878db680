/* softmax_backward. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void softmax_backward(device const float *y [[buffer(SOFTMAX_BACKWARD_Y)]],
                                 device const float *gradient [[buffer(SOFTMAX_BACKWARD_GRADIENT)]],
                                 device float *out [[buffer(SOFTMAX_BACKWARD_OUT)]],
                                 constant softmax_backward_args &args [[buffer(SOFTMAX_BACKWARD_ARGS)]],
                                 uint row [[threadgroup_position_in_grid]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  y += row * args.y_row_stride;
  gradient += row * args.gradient_row_stride;
  out += row * args.out_row_stride;

  float mean = 0;
  for (uint j = lane; j < args.width; j += 32) mean += y[j] * gradient[j];
  mean = simd_sum(mean);
  for (uint j = lane; j < args.width; j += 32) out[j] = args.scale * (y[j] * (gradient[j] - mean));
}
