/* add and silu_mul. Contracts in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void add(device const float *a [[buffer(ELEMENTWISE_A)]],
                    device const float *b [[buffer(ELEMENTWISE_B)]],
                    device float *out [[buffer(ELEMENTWISE_OUT)]],
                    constant elementwise_args &args [[buffer(ELEMENTWISE_ARGS)]],
                    uint i [[thread_position_in_grid]]) {
  if (i < args.count) out[i] = a[i] + b[i];
}

[[kernel]] void silu_mul(device const float *a [[buffer(ELEMENTWISE_A)]],
                         device const float *b [[buffer(ELEMENTWISE_B)]],
                         device float *out [[buffer(ELEMENTWISE_OUT)]],
                         constant elementwise_args &args [[buffer(ELEMENTWISE_ARGS)]],
                         uint i [[thread_position_in_grid]]) {
  if (i >= args.count) return;
  float gate = a[i];
  out[i] = precise::divide(gate, 1.0f + precise::exp(-gate)) * b[i];
}
