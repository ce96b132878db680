/* cross_entropy of each row's logits, and its gradient. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads.
 *
 * As in softmax.metal the largest logit is subtracted first, so that no exponential overflows; -log of the softmax is
 * then log(sum) + largest - logit, without the logarithm of a number that may be 0. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void cross_entropy(device const float *logits [[buffer(CROSS_ENTROPY_LOGITS)]],
                              device const uint *labels [[buffer(CROSS_ENTROPY_LABELS)]],
                              device float *gradient [[buffer(CROSS_ENTROPY_GRADIENT)]],
                              device float *loss [[buffer(CROSS_ENTROPY_LOSS)]],
                              constant cross_entropy_args &args [[buffer(CROSS_ENTROPY_ARGS)]],
                              uint row [[threadgroup_position_in_grid]],
                              uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  logits += row * args.logits_row_stride;
  gradient += row * args.gradient_row_stride;
  uint label = labels[row];

  if (label >= args.width) {
    float nothing = label == CROSS_ENTROPY_IGNORED ? 0.0f : as_type<float>(0x7fc00000u);
    for (uint j = lane; j < args.width; j += 32) gradient[j] = nothing;
    if (lane == 0) loss[row] = nothing;
    return;
  }

  float largest = -INFINITY;
  for (uint j = lane; j < args.width; j += 32) largest = max(largest, logits[j]);
  largest = simd_max(largest);
  float sum = 0;
  for (uint j = lane; j < args.width; j += 32) sum += precise::exp(logits[j] - largest);
  sum = simd_sum(sum);
  for (uint j = lane; j < args.width; j += 32) {
    float share = precise::divide(precise::exp(logits[j] - largest), sum);
    gradient[j] = args.scale * (j == label ? share - 1.0f : share);
  }
  if (lane == 0) loss[row] = args.scale * (precise::log(sum) + (largest - logits[label]));
}
