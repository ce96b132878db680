/* rope: rotary position embedding, in place. Contract in args.h.
 *
 * Geometry: one thread for each pair of elements of any number of heads, the same in each, since the angle takes longer
 * than a rotation: dispatchThreads (rotary_dim / 2, 1 to heads, tokens). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "rotation.h"

[[kernel]] void rope(device float *x [[buffer(ROPE_X)]],
                     device const uint *positions [[buffer(ROPE_POSITIONS)]],
                     device const float *factors [[buffer(ROPE_FACTORS)]],
                     constant rope_args &args [[buffer(ROPE_ARGS)]],
                     uint3 position [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
  uint i = position.x, token = position.z;
  uint pairs = args.rotary_dim / 2;
  if (i >= pairs || token >= args.tokens) return;

  float frequency = rotation_frequency(i, args.rotary_dim, args.frequency_base);
  float2 turn = rotation(positions[token], args.frequency_scale, frequency, args.has_factors ? factors[i] : 1.0f);

  bool half_apart = args.pairing == ROPE_PAIRING_HALF;
  for (uint head = position.y; head < args.heads; head += grid.y) {
    device float *row = x + token * args.token_stride + head * args.head_stride;
    device float *first = row + (half_apart ? i : 2 * i);
    device float *second = first + (half_apart ? pairs : 1);
    float a = *first, b = *second;
    *first = a * turn.x - b * turn.y;
    *second = a * turn.y + b * turn.x;
  }
}
