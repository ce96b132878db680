/* rope_store_<T>: rope of one token's heads, and copies of what stands there then to caches, on devices of many cores,
 * where a kernel's start takes longer than its work. Contract in args.h.
 *
 * Geometry: one thread for each pair of elements: dispatchThreads (rotary_dim / 2, all_heads, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "async_copy.h"

/* An element to the copies that it belongs to. */
template <typename T>
static inline void store(device T *first, device T *second, constant rope_store_args &args, uint element, float value) {
  uint to_first = element - args.first_start, to_second = element - args.second_start;
  if (to_first < args.first_width) first[to_first] = T(value);
  if (to_second < args.second_width) second[to_second] = T(value);
}

template <typename T>
[[kernel]] void rope_store(device float *x [[buffer(ROPE_STORE_X)]],
                           device const uint *positions [[buffer(ROPE_STORE_POSITIONS)]],
                           device const float *factors [[buffer(ROPE_STORE_FACTORS)]],
                           device T *first_store [[buffer(ROPE_STORE_FIRST)]],
                           device T *second_store [[buffer(ROPE_STORE_SECOND)]],
                           constant rope_store_args &args [[buffer(ROPE_STORE_ARGS)]],
                           uint3 position [[thread_position_in_grid]]) {
  allow_successor();
  uint i = position.x, head = position.y, pairs = args.rotary_dim / 2;
  /* The angle as in rope.metal, as far as it depends on no memory. */
  float exponent = -2.0f * float(i) / float(args.rotary_dim);
  float frequency = precise::pow(args.frequency_base, exponent);
  wait_for_predecessor();
  if (i >= pairs || head >= args.all_heads) return;
  bool half_apart = args.pairing == ROPE_PAIRING_HALF;
  uint first = head * args.rotary_dim + (half_apart ? i : 2 * i), second = first + (half_apart ? pairs : 1);
  float a = x[first], b = x[second];
  if (head < args.heads) {
    float theta = float(positions[0]) * args.frequency_scale * frequency;
    if (args.has_factors) theta /= factors[i];
    float cosine = precise::cos(theta), sine = precise::sin(theta);
    float rotated = a * cosine - b * sine;
    b = a * sine + b * cosine;
    a = rotated;
    x[first] = a;
    x[second] = b;
  }
  store(first_store, second_store, args, first, a);
  store(first_store, second_store, args, second, b);
}

#define STORE(NAME, T) template [[host_name(NAME)]] [[kernel]] decltype(rope_store<T>) rope_store<T>;

STORE("rope_store_f32", float)
STORE("rope_store_f16", half)
