/* rms_norm_wide: rms_norm, contract in args.h, for long rows on GPUs; besides, the width is a multiple
 * of four and rows lie at multiples of 16 bytes.
 *
 * Geometry: a threadgroup for each row: dispatchThreadgroups (rows, 1, 1) of (1024, 1, 1) threads.
 *
 * A row is too short to fill a core with work, so what takes time is how often a thread waits for memory: once. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

constant constexpr uint THREADS = 1024, KEPT = 4; /* vectors of a thread that stay in registers */

static inline float square(float4 x) { return (x.x * x.x + x.y * x.y) + (x.z * x.z + x.w * x.w); }

[[kernel, max_total_threads_per_threadgroup(THREADS)]] void
rms_norm_wide(device const float *x [[buffer(RMS_NORM_X)]], device const float *weight [[buffer(RMS_NORM_WEIGHT)]],
              device float *out [[buffer(RMS_NORM_OUT)]], constant rms_norm_args &args [[buffer(RMS_NORM_ARGS)]],
              uint row [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float parts[THREADS / 32];
  device const float4 *from = (device const float4 *)(x + row * args.x_row_stride);
  device const float4 *weights = (device const float4 *)weight;
  device float4 *to = (device float4 *)(out + row * args.out_row_stride);
  uint fours = args.width / 4;

  float4 values[KEPT], factors[KEPT];
  float squares = 0;
#pragma unroll
  for (uint i = 0; i < KEPT; ++i) {
    uint place = thread_index + i * THREADS;
    values[i] = place < fours ? from[place] : float4(0);
    factors[i] = place < fours ? weights[place] : float4(0);
    squares += square(values[i]);
  }
  for (uint place = thread_index + KEPT * THREADS; place < fours; place += THREADS) squares += square(from[place]);

  squares = simd_sum(squares);
  if (lane == 0) parts[simdgroup] = squares;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  squares = simd_sum(parts[lane]);

  float factor = precise::rsqrt(squares / float(args.width) + args.eps);
#pragma unroll
  for (uint i = 0; i < KEPT; ++i) {
    uint place = thread_index + i * THREADS;
    if (place < fours) to[place] = values[i] * factor * factors[i];
  }
  for (uint place = thread_index + KEPT * THREADS; place < fours; place += THREADS)
    to[place] = from[place] * factor * weights[place];
}
