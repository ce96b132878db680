/* add, silu_mul and gelu_mul. Contracts in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (count, 1, 1), threadgroups of (256, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

struct sum {
  static float of(float a, float b) { return a + b; }
};

struct silu_product {
  static float of(float a, float b) { return precise::divide(a, 1.0f + precise::exp(-a)) * b; }
};

/* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), 2u = 2 sqrt(2 / pi) (a + 0.044715 a^3). */
struct gelu_product {
  static float of(float a, float b) {
    float twice = 1.59576912f * (a + 0.044715f * a * a * a);
    return precise::divide(a, 1.0f + precise::exp(-twice)) * b;
  }
};

template <typename Function>
[[kernel]] void elementwise(device const float *a [[buffer(ELEMENTWISE_A)]],
                            device const float *b [[buffer(ELEMENTWISE_B)]],
                            device float *out [[buffer(ELEMENTWISE_OUT)]],
                            constant elementwise_args &args [[buffer(ELEMENTWISE_ARGS)]],
                            uint i [[thread_position_in_grid]]) {
  if (i < args.count) out[i] = Function::of(a[i], b[i]);
}

#define ELEMENTWISE(NAME, FUNCTION) \
  template [[host_name(NAME)]] [[kernel]] decltype(elementwise<FUNCTION>) elementwise<FUNCTION>;

ELEMENTWISE("add", sum)
ELEMENTWISE("silu_mul", silu_product)
ELEMENTWISE("gelu_mul", gelu_product)
