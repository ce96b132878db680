/* Blocks of 16 rows interleaved: where each of their words of 16 bits is. Contract of interleave_<B> in args.h. */
#ifndef IRON_KERNELS_STRIPS_H
#define IRON_KERNELS_STRIPS_H

/* A number as a block of its own, all of which is a half. */
struct number_f16 {
  enum { WEIGHTS = 1, WORDS = 1, LEADING = 1, HALVES = 1 };
};
struct number_bf16 {
  enum { WEIGHTS = 1, WORDS = 1, LEADING = 1, HALVES = 1 };
};

/* The place of a word of 32 bits among those of a block. */
template <typename Block> static inline uint place_in_block(uint word) { return word; }
template <> inline uint place_in_block<q4_k>(uint word) {
  if (word < 3) return 9 * word + 8;
  return word - 3 + (word - 3) / 8;
}
template <> inline uint place_in_block<q5_k>(uint word) {
  if (word < 3) return 9 * word + 16;
  if (word < 11) return 2 * (word - 3);
  if (word < 19) return 2 * (word - 11) + 1;
  return word - 3 + (word - 11) / 8;
}
template <> inline uint place_in_block<q6_k>(uint word) {
  if (word < 32) return word / 16 * 26 + word % 8 / 4 * 13 + word % 4 * 3 + 1 + word % 16 / 8;
  if (word < 48) return (word - 32) / 4 * 13 + word % 4 * 3;
  return (word - 48) * 13 + 12;
}

/* The place of word i of 16 bits of row `row`'s block among those of 16 blocks. */
template <typename Block> static inline uint place_in_strip(uint i, uint row) {
  constexpr uint PAIRED = Block::WORDS - Block::HALVES;
  if (i < Block::LEADING) return (PAIRED + i) * INTERLEAVE_ROWS + row;
  i -= Block::LEADING;
  if (i < PAIRED) return 2 * (place_in_block<Block>(i / 2) * INTERLEAVE_ROWS + row) + i % 2;
  return (i + Block::LEADING) * INTERLEAVE_ROWS + row;
}

/* A matrix of strips, for block_tiles. A block is put together before it is read: a GPU is not what strips are for. */
template <typename Block> struct strip_rows {
  static void read(device const ushort *b, uint row, ulong row_stride, uint group, thread float &scale,
                   thread float &offset, thread float *q) {
    uint groups = Block::WEIGHTS / 16;
    ulong first = row / INTERLEAVE_ROWS * (row_stride / Block::WEIGHTS) + group / groups;
    b += first * INTERLEAVE_ROWS * Block::WORDS;
    ushort words[Block::WORDS];
    for (uint i = 0; i < Block::WORDS; ++i) words[i] = b[place_in_strip<Block>(i, row % INTERLEAVE_ROWS)];
    Block::read((thread const ushort *)words, group % groups, scale, offset, q);
  }
};

#endif
