/* silu_mul_backward and gelu_mul_backward. Contracts in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

/* Both gates are a * s(u(a)) with s the logistic function. */
struct silu_gate {
  static float argument(float a) { return a; }
  static float slope(float) { return 1.0f; }
};

struct gelu_gate {
  static float argument(float a) { return 1.59576912f * (a + 0.044715f * a * a * a); }
  static float slope(float a) { return 1.59576912f * (1.0f + 3.0f * 0.044715f * a * a); }
};

template <typename Gate>
[[kernel]] void gated_backward(device const float *a [[buffer(GATED_A)]], device const float *b [[buffer(GATED_B)]],
                               device const float *gradient [[buffer(GATED_GRADIENT)]],
                               device float *a_gradient [[buffer(GATED_A_GRADIENT)]],
                               device float *b_gradient [[buffer(GATED_B_GRADIENT)]],
                               constant gated_args &args [[buffer(GATED_ARGS)]],
                               uint i [[thread_position_in_grid]]) {
  if (i >= args.count) return;
  float gate = a[i], s = precise::divide(1.0f, 1.0f + precise::exp(-Gate::argument(gate)));
  /* Far out s does not change, however large the slope that it is multiplied with. */
  float change = s * (1.0f - s);
  float slope = change == 0 ? s : s + gate * change * Gate::slope(gate);
  a_gradient[i] = gradient[i] * b[i] * slope;
  b_gradient[i] = gradient[i] * (gate * s);
}

#define GATED(NAME, GATE) template [[host_name(NAME)]] [[kernel]] decltype(gated_backward<GATE>) gated_backward<GATE>;

GATED("silu_mul_backward", silu_gate)
GATED("gelu_mul_backward", gelu_gate)
