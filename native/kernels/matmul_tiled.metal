/* matmul_tiled_<B>_<T>, B a type of numbers: c = op(a) op(b) + bias in tiles. Contract in args.h, design in tiles.h.
 *
 * Geometry: threadgroups of 128 threads, each for 64 columns and 32 rows of c: (n / 64, m / 32, batch), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "tiles.h"

/* Halves times halves need no wider tiles: their products are exact in the float sums. */
#define TILED(NAME, T, STORED, A, B, VALUE)                                                \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_tiled<T, STORED, plain_tiles<A, B, VALUE>>) \
      matmul_tiled<T, STORED, plain_tiles<A, B, VALUE>>;

TILED("matmul_tiled_f32_f32", float, float, f32, f32, float)
TILED("matmul_tiled_f16_f32", float, half, f32, f16, float)
TILED("matmul_tiled_bf16_f32", float, ushort, f32, bf16, float)
TILED("matmul_tiled_f32_f16", half, float, f16, f32, float)
TILED("matmul_tiled_f16_f16", half, half, f16, f16, half)
TILED("matmul_tiled_bf16_f16", half, ushort, f16, bf16, float)
