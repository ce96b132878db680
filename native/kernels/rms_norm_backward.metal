/* rms_norm_backward. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void rms_norm_backward(device const float *x [[buffer(RMS_NORM_BACKWARD_X)]],
                                  device const float *weight [[buffer(RMS_NORM_BACKWARD_WEIGHT)]],
                                  device const float *gradient [[buffer(RMS_NORM_BACKWARD_GRADIENT)]],
                                  device float *x_gradient [[buffer(RMS_NORM_BACKWARD_X_GRADIENT)]],
                                  device float *products [[buffer(RMS_NORM_BACKWARD_PRODUCTS)]],
                                  constant rms_norm_backward_args &args [[buffer(RMS_NORM_BACKWARD_ARGS)]],
                                  uint row [[threadgroup_position_in_grid]],
                                  uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  x += row * args.x_row_stride;
  gradient += row * args.gradient_row_stride;
  x_gradient += row * args.x_gradient_row_stride;
  products += row * args.products_row_stride;

  float squares = 0, along = 0;
  for (uint j = lane; j < args.width; j += 32) {
    squares += x[j] * x[j];
    along += gradient[j] * weight[j] * x[j];
  }
  squares = simd_sum(squares);
  along = simd_sum(along);
  float factor = precise::rsqrt(squares / float(args.width) + args.eps);
  float back = factor * factor * (along / float(args.width));
  for (uint j = lane; j < args.width; j += 32) {
    products[j] = gradient[j] * (x[j] * factor);
    x_gradient[j] = factor * (gradient[j] * weight[j] - x[j] * back);
  }
}
