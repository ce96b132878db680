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

#define TILED(NAME, T, A, WORD, B)                                                          \
  template [[host_name(#NAME)]] [[kernel]] decltype(matmul_tiled<T, WORD, block_tiles<A, B>>) \
      matmul_tiled<T, WORD, block_tiles<A, B>>;

#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  TILED(matmul_tiled_##name##_f32, float, f32, WORD_##alignment, name)       \
  TILED(matmul_tiled_##name##_f16, half, f16, WORD_##alignment, name)
#include "dtypes.def"
