/* sum_squares of each row. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row: dispatchThreadgroups (rows, 1, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void sum_squares(device const float *x [[buffer(SUM_SQUARES_X)]],
                            device float *out [[buffer(SUM_SQUARES_OUT)]],
                            constant sum_squares_args &args [[buffer(SUM_SQUARES_ARGS)]],
                            uint row [[threadgroup_position_in_grid]],
                            uint lane [[thread_index_in_simdgroup]]) {
  if (row >= args.rows) return;
  x += row * args.x_row_stride;
  float squares = 0;
  for (uint j = lane; j < args.width; j += 32) squares += x[j] * x[j];
  squares = simd_sum(squares);
  if (lane == 0) out[row] = squares;
}
