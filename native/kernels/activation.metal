/* relu, sigmoid and tanh. Contracts in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

struct rectifier {
  static float of(float x) { return x < 0 ? 0.0f : x; } /* a NaN is not less, and stays one */
};

struct logistic {
  static float of(float x) { return precise::divide(1.0f, 1.0f + precise::exp(-x)); }
};

struct hyperbolic {
  static float of(float x) { return precise::tanh(x); }
};

template <typename Function>
[[kernel]] void activation(device const float *x [[buffer(ACTIVATION_X)]],
                           device float *out [[buffer(ACTIVATION_OUT)]],
                           constant activation_args &args [[buffer(ACTIVATION_ARGS)]],
                           uint i [[thread_position_in_grid]]) {
  if (i < args.count) out[i] = args.scale * Function::of(precise::divide(x[i], args.scale));
}

#define ACTIVATION(NAME, FUNCTION) \
  template [[host_name(NAME)]] [[kernel]] decltype(activation<FUNCTION>) activation<FUNCTION>;

ACTIVATION("relu", rectifier)
ACTIVATION("sigmoid", logistic)
ACTIVATION("tanh", hyperbolic)
