/* add_bias. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (width, rows, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void add_bias(device const float *x [[buffer(ADD_BIAS_X)]],
                         device const float *bias [[buffer(ADD_BIAS_BIAS)]],
                         device float *out [[buffer(ADD_BIAS_OUT)]],
                         constant add_bias_args &args [[buffer(ADD_BIAS_ARGS)]],
                         uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  out[row * args.out_row_stride + j] = x[row * args.x_row_stride + j] + bias[j];
}
