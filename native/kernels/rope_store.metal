/* rope_store_<T>: rope of one token's heads, and copies of what stands there then to caches, on GPUs, where a
 * kernel's start takes longer than its work. Contract in args.h.
 *
 * Geometry: one thread for each pair of elements: dispatchThreads (rotary_dim / 2, all_heads, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "async_copy.h"
#include "rotation.h"

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
  float frequency = rotation_frequency(i, args.rotary_dim, args.frequency_base);
  wait_for_predecessor();
  if (i >= pairs || head >= args.all_heads) return;
  bool half_apart = args.pairing == ROPE_PAIRING_HALF;
  uint first = head * args.rotary_dim + (half_apart ? i : 2 * i), second = first + (half_apart ? pairs : 1);
  float a = x[first], b = x[second];
  if (head < args.heads) {
    float2 turn = rotation(positions[0], args.frequency_scale, frequency, args.has_factors ? factors[i] : 1.0f);
    float rotated = a * turn.x - b * turn.y;
    b = a * turn.y + b * turn.x;
    a = rotated;
    x[first] = a;
    x[second] = b;
  }
  store_rotated(first_store, second_store, args, first, a);
  store_rotated(first_store, second_store, args, second, b);
}

#define STORE(NAME, T) template [[host_name(NAME)]] [[kernel]] decltype(rope_store<T>) rope_store<T>;

STORE("rope_store_f32", float)
STORE("rope_store_f16", half)
