/* mse: the squared error of each row, and its gradient. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void mse(device const float *prediction [[buffer(MSE_PREDICTION)]],
                    device const float *target [[buffer(MSE_TARGET)]],
                    device float *gradient [[buffer(MSE_GRADIENT)]],
                    device float *loss [[buffer(MSE_LOSS)]],
                    constant mse_args &args [[buffer(MSE_ARGS)]],
                    uint row [[threadgroup_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  prediction += row * args.prediction_row_stride;
  target += row * args.target_row_stride;
  gradient += row * args.gradient_row_stride;

  float sum = 0;
  for (uint j = lane; j < args.width; j += 32) {
    float difference = prediction[j] - target[j];
    gradient[j] = 2.0f * args.scale * difference;
    sum += difference * difference;
  }
  sum = simd_sum(sum);
  if (lane == 0) loss[row] = args.scale * sum;
}
