/* interleave_<B>. Contract in args.h.
 *
 * Geometry: one thread for each block: dispatchThreads (width / weights of a block, rows, 1), threadgroups of (32, 8,
 * 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"
#include "strips.h"

template <typename Block>
[[kernel]] void interleave(device const ushort *x [[buffer(INTERLEAVE_X)]],
                           device ushort *out [[buffer(INTERLEAVE_OUT)]],
                           constant interleave_args &args [[buffer(INTERLEAVE_ARGS)]],
                           uint2 position [[thread_position_in_grid]]) {
  uint blocks = args.width / Block::WEIGHTS;
  if (position.x >= blocks || position.y >= args.rows) return;
  uint strip = position.y / INTERLEAVE_ROWS, row = position.y % INTERLEAVE_ROWS;
  x += (position.y * (args.x_row_stride / Block::WEIGHTS) + position.x) * Block::WORDS;
  out += (strip * ulong(blocks) + position.x) * INTERLEAVE_ROWS * Block::WORDS;
  for (uint i = 0; i < Block::WORDS; ++i) out[place_in_strip<Block>(i, row)] = x[i];
}

#define INTERLEAVE(NAME, B) template [[host_name(NAME)]] [[kernel]] decltype(interleave<B>) interleave<B>;

INTERLEAVE("interleave_f16", number_f16)
INTERLEAVE("interleave_bf16", number_bf16)
INTERLEAVE("interleave_q8_0", q8_0)
INTERLEAVE("interleave_q4_0", q4_0)
INTERLEAVE("interleave_q4_k", q4_k)
INTERLEAVE("interleave_q5_k", q5_k)
INTERLEAVE("interleave_q6_k", q6_k)
