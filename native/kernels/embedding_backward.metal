/* embedding_backward. Contract in args.h.
 *
 * Geometry: one SIMD-group for each row of out: dispatchThreadgroups (vocab, 1, 1) of (32, 1, 1) threads.
 *
 * Each row of out has its own SIMD-group, which adds up what belongs to it in the order of the rows: no two threads
 * write the same element, and the same input always gives the same bits. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

[[kernel]] void embedding_backward(device const uint *ids [[buffer(EMBEDDING_BACKWARD_IDS)]],
                                   device const float *gradient [[buffer(EMBEDDING_BACKWARD_GRADIENT)]],
                                   device float *out [[buffer(EMBEDDING_BACKWARD_OUT)]],
                                   constant embedding_backward_args &args [[buffer(EMBEDDING_BACKWARD_ARGS)]],
                                   uint id [[threadgroup_position_in_grid]],
                                   uint lane [[thread_index_in_simdgroup]]) {
  if (id >= args.vocab) return;
  out += id * args.out_row_stride;
  for (uint j = lane; j < args.width; j += 32) out[j] = 0;
  for (ulong row = 0; row < args.rows; ++row) {
    if (ids[row] != id) continue;
    device const float *from = gradient + row * args.gradient_row_stride;
    for (uint j = lane; j < args.width; j += 32) out[j] += args.scale * from[j];
  }
}
