/* sgd_step. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void sgd_step(device const float *gradient [[buffer(SGD_GRADIENT)]],
                         device float *weights [[buffer(SGD_WEIGHTS)]],
                         device float *velocity [[buffer(SGD_VELOCITY)]],
                         constant sgd_args &args [[buffer(SGD_ARGS)]],
                         uint i [[thread_position_in_grid]]) {
  if (i >= args.count) return;
  float moved = args.momentum * velocity[i] + (gradient[i] + args.weight_decay * weights[i]);
  velocity[i] = moved;
  weights[i] -= args.learning_rate * moved;
}
