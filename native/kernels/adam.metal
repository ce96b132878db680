/* adam_step. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void adam_step(device const float *gradient [[buffer(ADAM_GRADIENT)]],
                          device float *weights [[buffer(ADAM_WEIGHTS)]],
                          device float *first_moment [[buffer(ADAM_FIRST_MOMENT)]],
                          device float *second_moment [[buffer(ADAM_SECOND_MOMENT)]],
                          constant adam_args &args [[buffer(ADAM_ARGS)]],
                          uint i [[thread_position_in_grid]]) {
  if (i >= args.count) return;
  float g = gradient[i];
  float first = args.beta1 * first_moment[i] + (1.0f - args.beta1) * g;
  float second = args.beta2 * second_moment[i] + (1.0f - args.beta2) * (g * g);
  first_moment[i] = first;
  second_moment[i] = second;
  float size = precise::divide(precise::sqrt(second), args.root) + args.eps;
  weights[i] = args.decay * weights[i] - args.step_size * precise::divide(first, size);
}
