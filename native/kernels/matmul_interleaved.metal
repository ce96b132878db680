/* matmul_interleaved_<B>_<T>: c = op(a) op(b) + bias in tiles, for a b in strips. Contract in args.h, design in tiles.h. A GPU gains nothing
 * from strips; the kernel is there so that they mean the same everywhere.
 *
 * Geometry: threadgroups of 128 threads, each for 64 columns and 32 rows of c: (n / 64, m / 32, batch), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "strips.h"
#include "tiles.h"

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
