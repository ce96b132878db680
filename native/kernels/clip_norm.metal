/* clip_norm. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void clip_norm(device const float *squares [[buffer(CLIP_NORM_SQUARES)]],
                          device float *x [[buffer(CLIP_NORM_X)]],
                          constant clip_norm_args &args [[buffer(CLIP_NORM_ARGS)]],
                          uint i [[thread_position_in_grid]]) {
  if (i >= args.count) return;
  float factor = precise::divide(args.norm, fabs(args.scale) * precise::sqrt(squares[0]) + CLIP_NORM_EPS);
  /* Written so that a NaN is not taken for a norm that is small enough. */
  x[i] *= args.scale * (factor > 1.0f ? 1.0f : factor);
}
