/* transpose_<N>. Contract in args.h.
 *
 * Geometry: a threadgroup for each tile of 32 x 32 elements: dispatchThreadgroups (ceil(width / 32), ceil(rows / 32),
 * 1) of (256, 1, 1) threads.
 *
 * A tile goes through threadgroup memory, so that device memory is read and written row by row. A row of the tile has
 * one element more, which moves the elements of a column to different banks (Ruetsch & Micikevicius 2009, "Optimizing
 * Matrix Transpose in CUDA"). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

constant constexpr uint TILE = 32;
constant constexpr uint THREADS = 256;

template <typename T>
[[kernel]] void transpose(device const T *x [[buffer(TRANSPOSE_X)]],
                          device T *out [[buffer(TRANSPOSE_OUT)]],
                          constant transpose_args &args [[buffer(TRANSPOSE_ARGS)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup T tile[TILE * (TILE + 1)];
  uint column = thread_index % TILE, first = thread_index / TILE;
  uint top = group.y * TILE, left = group.x * TILE;

  for (uint row = first; row < TILE; row += THREADS / TILE)
    if (top + row < args.rows && left + column < args.width)
      tile[row * (TILE + 1) + column] = x[(top + row) * args.x_row_stride + left + column];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint row = first; row < TILE; row += THREADS / TILE)
    if (left + row < args.width && top + column < args.rows)
      out[(left + row) * args.out_row_stride + top + column] = tile[column * (TILE + 1) + row];
}

template [[host_name("transpose_32")]] [[kernel]] decltype(transpose<uint>) transpose<uint>;
template [[host_name("transpose_16")]] [[kernel]] decltype(transpose<ushort>) transpose<ushort>;
