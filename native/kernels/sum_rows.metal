/* sum_rows. Contract in args.h.
 *
 * Geometry: a threadgroup for each 32 columns: dispatchThreadgroups (ceil(width / 32), 1, 1) of (256, 1, 1) threads.
 *
 * A SIMD-group reads 32 neighbors of a row, and the eight SIMD-groups take every eighth row. Their sums are added up in
 * the order of the SIMD-groups, so that the same rows always give the same bits. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

constant constexpr uint COLUMNS = 32;
constant constexpr uint PARTS = 8;

[[kernel]] void sum_rows(device const float *x [[buffer(SUM_ROWS_X)]],
                         device float *out [[buffer(SUM_ROWS_OUT)]],
                         constant sum_rows_args &args [[buffer(SUM_ROWS_ARGS)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float parts[PARTS * COLUMNS];
  uint part = thread_index / COLUMNS, j = group.x * COLUMNS + thread_index % COLUMNS;

  float sum = 0;
  if (j < args.width)
    for (ulong row = part; row < args.rows; row += PARTS) sum += x[row * args.x_row_stride + j];
  parts[thread_index] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (part > 0 || j >= args.width) return;
  for (uint other = 1; other < PARTS; ++other) sum += parts[other * COLUMNS + thread_index];
  out[j] = sum;
}
