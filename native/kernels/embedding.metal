/* embedding_<B>: rows of a table, as float. Contract in args.h.
 *
 * Geometry: for numbers one thread for each element of out: dispatchThreads (width, rows, 1); for blocks threadgroups
 * of 32 threads, each for 512 elements of a row, 16 a thread: (width / 512, rows, 1), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"

/* An id that has no row: NaN, which fast math leaves alone in this form. */
static inline float no_weight() { return as_type<float>(0x7fc00000u); }

template <typename Stored, typename Reader>
[[kernel]] void embedding(device const Stored *table [[buffer(EMBEDDING_TABLE)]],
                          device const uint *ids [[buffer(EMBEDDING_IDS)]],
                          device float *out [[buffer(EMBEDDING_OUT)]],
                          constant embedding_args &args [[buffer(EMBEDDING_ARGS)]],
                          uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  uint id = ids[row];
  float value = no_weight();
  if (id < args.vocab) value = Reader::at(table, id * args.table_row_stride + j);
  out[row * args.out_row_stride + j] = args.scale * value;
}

template <typename Word, typename Block>
[[kernel]] void embedding_blocks(device const Word *table [[buffer(EMBEDDING_TABLE)]],
                                 device const uint *ids [[buffer(EMBEDDING_IDS)]],
                                 device float *out [[buffer(EMBEDDING_OUT)]],
                                 constant embedding_args &args [[buffer(EMBEDDING_ARGS)]],
                                 uint2 position [[threadgroup_position_in_grid]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  uint group = position.x * 32 + lane, row = position.y;
  if (group > (args.width - 1) / 16) return;
  uint id = ids[row];
  float scale = 0, offset = no_weight(), q[16] = {};
  if (id < args.vocab) {
    ulong words = args.table_row_stride / Block::WEIGHTS * Block::WORDS;
    Block::read(block_of<Block>(table + id * words, group), group % (Block::WEIGHTS / 16), scale, offset, q);
  }
  out += row * args.out_row_stride + 16 * group;
  /* Without an offset none is added: it would make 0 of a -0. */
  bool adds = Block::OFFSET || id >= args.vocab;
#pragma unroll
  for (uint i = 0; i < 16; ++i) {
    if (16 * group + i < args.width) out[i] = args.scale * (adds ? scale * q[i] + offset : scale * q[i]);
  }
}

#define EMBEDDING(NAME, STORED, READER) \
  template [[host_name(#NAME)]] [[kernel]] decltype(embedding<STORED, READER>) embedding<STORED, READER>;
#define EMBEDDING_OF(NAME, WORD, BLOCK) \
  template [[host_name(#NAME)]] [[kernel]] decltype(embedding_blocks<WORD, BLOCK>) embedding_blocks<WORD, BLOCK>;

#define DTYPE_FLOAT(id, NAME, name, ...) EMBEDDING(embedding_##name, name::stored, name)
#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  EMBEDDING_OF(embedding_##name, WORD_##alignment, name)
#include "dtypes.def"
