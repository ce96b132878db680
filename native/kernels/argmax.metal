/* argmax of each row. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads.
 *
 * A lane takes every 32nd element, so that a SIMD-group reads consecutive memory; simd_max and simd_min (Metal Shading
 * Language Specification, section 6.9.2) put the lanes' parts together without threadgroup memory or a barrier. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "order.h"

[[kernel]] void argmax(device const float *x [[buffer(ARGMAX_X)]],
                       device uint *out [[buffer(ARGMAX_OUT)]],
                       constant argmax_args &args [[buffer(ARGMAX_ARGS)]],
                       uint row [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  device const float *from = x + row * args.x_row_stride;

  uint largest = 0, index = lane;
  for (uint j = lane; j < args.width; j += 32) {
    uint value = order(as_type<uint>(from[j]));
    if (value > largest) {
      largest = value;
      index = j;
    }
  }
  /* Of the lanes that have the largest value, the one with the lowest index. */
  uint winner = simd_max(largest);
  index = simd_min(largest == winner ? index : 0xffffffffu);
  if (lane == 0) out[row] = index;
}
