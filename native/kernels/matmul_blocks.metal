/* matmul_tiled_<B>_<T>, B a type of blocks: c = op(a) op(b) + bias in tiles, of which those of b are decoded in
 * threadgroup memory. Contract in args.h, design in tiles.h.
 *
 * Geometry: threadgroups of 128 threads, each for 64 columns and 32 rows of c: (n / 64, m / 32, batch), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "tiles.h"

#define TILED(NAME, T, A, B)                                                                 \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_tiled<T, ushort, block_tiles<A, B>>) \
      matmul_tiled<T, ushort, block_tiles<A, B>>;

TILED("matmul_tiled_q8_0_f32", float, f32, q8_0)
TILED("matmul_tiled_q4_0_f32", float, f32, q4_0)
TILED("matmul_tiled_q4_1_f32", float, f32, q4_1)
TILED("matmul_tiled_q5_0_f32", float, f32, q5_0)
TILED("matmul_tiled_q5_1_f32", float, f32, q5_1)
TILED("matmul_tiled_q2_k_f32", float, f32, q2_k)
TILED("matmul_tiled_q3_k_f32", float, f32, q3_k)
TILED("matmul_tiled_q4_k_f32", float, f32, q4_k)
TILED("matmul_tiled_q5_k_f32", float, f32, q5_k)
TILED("matmul_tiled_q6_k_f32", float, f32, q6_k)
TILED("matmul_tiled_iq4_nl_f32", float, f32, iq4_nl)
TILED("matmul_tiled_q8_0_f16", half, f16, q8_0)
TILED("matmul_tiled_q4_0_f16", half, f16, q4_0)
TILED("matmul_tiled_q4_1_f16", half, f16, q4_1)
TILED("matmul_tiled_q5_0_f16", half, f16, q5_0)
TILED("matmul_tiled_q5_1_f16", half, f16, q5_1)
TILED("matmul_tiled_q2_k_f16", half, f16, q2_k)
TILED("matmul_tiled_q3_k_f16", half, f16, q3_k)
TILED("matmul_tiled_q4_k_f16", half, f16, q4_k)
TILED("matmul_tiled_q5_k_f16", half, f16, q5_k)
TILED("matmul_tiled_q6_k_f16", half, f16, q6_k)
TILED("matmul_tiled_iq4_nl_f16", half, f16, iq4_nl)
