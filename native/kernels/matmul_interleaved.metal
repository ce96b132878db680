/* matmul_interleaved_<B>_<T>: c = op(a) op(b) + bias in tiles, for a b in strips. Contract in args.h, design in
 * tiles.h. A GPU gains nothing from strips; the kernel is there so that they mean the same everywhere.
 *
 * Geometry: threadgroups of 128 threads, each for 64 columns and 32 rows of c: (n / 64, m / 32, batch), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "strips.h"
#include "tiles.h"

/* B as numbers in strips: 32 threads fill a strip's part of the tile. */
template <typename A, typename B> struct strip_tiles {
  typedef float value;
  static ulong stored(ulong elements) { return elements; }
  static void fill(threadgroup float *left, threadgroup float *right, device const typename A::stored *a,
                   device const typename B::stored *b, constant matmul_args &args, uint row, uint column, uint x,
                   uint thread_index) {
    a += args.transpose_a ? x * args.a_row_stride + row : row * args.a_row_stride + x;
    uint depth = args.k - x;
    fill_tile<A, TILE_ROWS, TILE_THREADS>(left, a, args.a_row_stride, args.transpose_a != 0, args.m - row, depth,
                                          thread_index);
    uint first = thread_index / 32 * INTERLEAVE_ROWS;
    uint height = column + first < args.n ? INTERLEAVE_ROWS : 0;
    b += (column + first) * args.b_row_stride + x * INTERLEAVE_ROWS;
    right += first * tile_stride<float>::OF;
    fill_tile<B, INTERLEAVE_ROWS, 32>(right, b, INTERLEAVE_ROWS, true, height, depth, thread_index % 32);
  }
};

#define NUMBERS(NAME, T, A, B)                                                             \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_tiled<T, B::stored, strip_tiles<A, B>>) \
      matmul_tiled<T, B::stored, strip_tiles<A, B>>;

NUMBERS("matmul_interleaved_f16_f32", float, f32, f16)
NUMBERS("matmul_interleaved_bf16_f32", float, f32, bf16)
NUMBERS("matmul_interleaved_f16_f16", half, f16, f16)
NUMBERS("matmul_interleaved_bf16_f16", half, f16, bf16)

#define TILED(NAME, T, A, B)                                                                                 \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_tiled<T, ushort, block_tiles<A, B, strip_rows<B>>>) \
      matmul_tiled<T, ushort, block_tiles<A, B, strip_rows<B>>>;

TILED("matmul_interleaved_q8_0_f32", float, f32, q8_0)
TILED("matmul_interleaved_q4_0_f32", float, f32, q4_0)
TILED("matmul_interleaved_q4_k_f32", float, f32, q4_k)
TILED("matmul_interleaved_q5_k_f32", float, f32, q5_k)
TILED("matmul_interleaved_q6_k_f32", float, f32, q6_k)
TILED("matmul_interleaved_q8_0_f16", half, f16, q8_0)
TILED("matmul_interleaved_q4_0_f16", half, f16, q4_0)
TILED("matmul_interleaved_q4_k_f16", half, f16, q4_k)
TILED("matmul_interleaved_q5_k_f16", half, f16, q5_k)
TILED("matmul_interleaved_q6_k_f16", half, f16, q6_k)
