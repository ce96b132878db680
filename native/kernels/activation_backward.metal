/* relu_backward, sigmoid_backward and tanh_backward. Contracts in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

struct of_rectifier {
  /* Written so that a NaN is not taken for a negative number. */
  static float of(float y, float gradient) { return y <= 0 ? 0.0f : y == y ? gradient : y; }
};

struct of_logistic {
  static float of(float y, float gradient) { return gradient * (y * (1.0f - y)); }
};

struct of_hyperbolic {
  /* The product, and not 1 - y * y, which is all rounding error where |y| is nearly 1. */
  static float of(float y, float gradient) { return gradient * ((1.0f - y) * (1.0f + y)); }
};

template <typename Function>
[[kernel]] void activation_backward(device const float *y [[buffer(ELEMENTWISE_A)]],
                                    device const float *gradient [[buffer(ELEMENTWISE_B)]],
                                    device float *out [[buffer(ELEMENTWISE_OUT)]],
                                    constant elementwise_args &args [[buffer(ELEMENTWISE_ARGS)]],
                                    uint i [[thread_position_in_grid]]) {
  if (i < args.count) out[i] = Function::of(y[i], gradient[i]);
}

#define BACKWARD(NAME, FUNCTION) \
  template [[host_name(NAME)]] [[kernel]] decltype(activation_backward<FUNCTION>) activation_backward<FUNCTION>;

BACKWARD("relu_backward", of_rectifier)
BACKWARD("sigmoid_backward", of_logistic)
BACKWARD("tanh_backward", of_hyperbolic)
