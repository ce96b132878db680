/* argmax_wide: argmax, contract in args.h, for long rows on GPUs; besides, the width is a multiple of four and rows lie
 * at multiples of 16 bytes.
 *
 * Geometry: a threadgroup for each row: dispatchThreadgroups (rows, 1, 1) of (1024, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "order.h"

constant constexpr uint THREADS = 1024;

[[kernel, max_total_threads_per_threadgroup(THREADS)]] void
argmax_wide(device const float *x [[buffer(ARGMAX_X)]], device uint *out [[buffer(ARGMAX_OUT)]],
            constant argmax_args &args [[buffer(ARGMAX_ARGS)]], uint row [[threadgroup_position_in_grid]],
            uint thread_index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
            uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup uint all_largest[THREADS / 32], all_index[THREADS / 32];
  device const uint4 *from = (device const uint4 *)(x + row * args.x_row_stride);

  uint largest = 0, index = 4 * thread_index;
#pragma unroll 4
  for (uint place = thread_index; place < args.width / 4; place += THREADS) {
    uint4 bits = from[place];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint value = order(bits[i]);
      index = value > largest ? 4 * place + i : index;
      largest = max(largest, value);
    }
  }
  /* Of those that have the largest value, the one with the lowest index. */
  uint winner = simd_max(largest);
  index = simd_min(largest == winner ? index : 0xffffffffu);
  if (lane == 0) {
    all_largest[simdgroup] = winner;
    all_index[simdgroup] = index;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup > 0) return;
  largest = all_largest[lane];
  winner = simd_max(largest);
  index = simd_min(largest == winner ? all_index[lane] : 0xffffffffu);
  if (lane == 0) out[row] = index;
}
