/* How block-quantised weights lie in memory, and sixteen of them at a time. A row is read in words of 16 bits, to which
 * blocks are aligned; that of a type whose blocks are not, in bytes.
 *
 * A type's `read` gives weights 16 group .. 16 group + 15 of a block as scale q[i] + offset, and its constants say
 *   WEIGHTS, WORDS   of a block;
 *   OFFSET           whether any offset is not 0;
 *   LARGEST          no q[i] is larger or below its negative;
 *   RUNS, STEP       groups g, g + STEP .. g + (RUNS - 1) STEP share the words of their low bits: who reads them all
 *                    reads these words once.
 *
 * Layouts and formulas: ggml-common.h and dequantize_row_* of ggml-quants.c in llama.cpp. A product scale q is exact in
 * float but q6_k's, and there is at most one sum, so that no order of evaluation gives another weight. */
#ifndef IRON_KERNELS_BLOCKS_H
#define IRON_KERNELS_BLOCKS_H

/* What a row is read in, by the alignment of its blocks. */
#define WORD_1 uchar
#define WORD_2 ushort

static inline float half_of(ushort word) { return float(as_type<half>(word)); }
template <typename Words> static inline uint byte_at(Words words, uint i) { return words[i / 2] >> (i % 2 * 8) & 255; }
template <typename Words> static inline float signed_byte_at(Words words, uint i) {
  return float(as_type<char>(uchar(byte_at(words, i))));
}

/* Of the 16 bytes of 8 words, the bits of `mask` from bit `shift` on. */
template <typename Words> static inline void bits_of(Words words, uint shift, uint mask, thread float *q) {
#pragma unroll
  for (uint i = 0; i < 8; ++i) {
    uint word = words[i] >> shift;
    q[2 * i] = float(word & mask);
    q[2 * i + 1] = float(word >> 8 & mask);
  }
}

/* The same, and above them bits of `high_mask` of other 16 bytes. */
template <typename Words>
static inline void bits_of(Words words, uint shift, uint mask, Words high, uint high_shift, uint high_mask, uint place,
                           float origin, thread float *q) {
#pragma unroll
  for (uint i = 0; i < 8; ++i) {
    uint word = words[i] >> shift, upper = high[i] >> high_shift;
    q[2 * i] = float((word & mask) | (upper & high_mask) << place) - origin;
    q[2 * i + 1] = float((word >> 8 & mask) | (upper >> 8 & high_mask) << place) - origin;
  }
}

/* The nibbles of 16 bytes, with a fifth bit from `fifth`, bit i for weight i. */
template <typename Words> static inline void five_bits_of(Words words, uint shift, uint fifth, float origin,
                                                          thread float *q) {
#pragma unroll
  for (uint i = 0; i < 8; ++i) {
    uint word = words[i] >> shift;
    q[2 * i] = float((word & 15) | (fifth >> (2 * i) & 1) << 4) - origin;
    q[2 * i + 1] = float((word >> 8 & 15) | (fifth >> (2 * i + 1) & 1) << 4) - origin;
  }
}

/* 32 weights: half scale, 32 signed bytes. */
struct q8_0 {
  enum { WEIGHTS = 32, WORDS = 17, OFFSET = 0, RUNS = 1, STEP = 1, LARGEST = 128 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = 0;
    Words words = block + 1 + 8 * group;
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      char2 pair = as_type<char2>(words[i]);
      q[2 * i] = float(pair.x);
      q[2 * i + 1] = float(pair.y);
    }
  }
  /* One weight of a row, byte by byte, for kernels whose lanes take an element each. */
  static float at(device const uchar *row, ulong index) {
    device const uchar *block = row + index / 32 * 34;
    return half_of(ushort(ushort(block[0]) | ushort(block[1]) << 8)) * float(as_type<char>(block[2 + index % 32]));
  }
};

/* 32 weights: half scale, 16 bytes of nibbles, the low ones first. scale (q - 8). */
struct q4_0 {
  enum { WEIGHTS = 32, WORDS = 9, OFFSET = 0, RUNS = 2, STEP = 1, LARGEST = 8 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = 0;
    bits_of(block + 1, 4 * group, 15, q);
#pragma unroll
    for (uint i = 0; i < 16; ++i) q[i] -= 8;
  }
};

/* 32 weights: half scale, half minimum, 16 bytes of nibbles. scale q + minimum. */
struct q4_1 {
  enum { WEIGHTS = 32, WORDS = 10, OFFSET = 1, RUNS = 2, STEP = 1, LARGEST = 15 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = half_of(block[1]);
    bits_of(block + 2, 4 * group, 15, q);
  }
};

/* 32 weights: half scale, 4 bytes of fifth bits, 16 bytes of nibbles. scale (q - 16). */
struct q5_0 {
  enum { WEIGHTS = 32, WORDS = 11, OFFSET = 0, RUNS = 2, STEP = 1, LARGEST = 16 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = 0;
    five_bits_of(block + 3, 4 * group, block[1 + group], 16, q);
  }
};

/* 32 weights: half scale, half minimum, 4 bytes of fifth bits, 16 bytes of nibbles. scale q + minimum. */
struct q5_1 {
  enum { WEIGHTS = 32, WORDS = 12, OFFSET = 1, RUNS = 2, STEP = 1, LARGEST = 31 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = half_of(block[1]);
    five_bits_of(block + 4, 4 * group, block[2 + group], 0, q);
  }
};

/* 32 weights: half scale, 16 bytes of nibbles that choose among 16 levels (kvalues_iq4nl). */
constant float iq4_nl_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
struct iq4_nl {
  enum { WEIGHTS = 32, WORDS = 9, OFFSET = 0, RUNS = 2, STEP = 1, LARGEST = 127 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[0]);
    offset = 0;
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      uint word = block[1 + i] >> (4 * group);
      q[2 * i] = iq4_nl_levels[word & 15];
      q[2 * i + 1] = iq4_nl_levels[word >> 8 & 15];
    }
  }
};

/* 256 weights: half scale, 16 bits of upper and 4 bytes of lower bits of 6-bit scales for 32 weights, 128 bytes of
 * nibbles that choose among the same levels. */
struct iq4_xs {
  enum { WEIGHTS = 256, WORDS = 68, OFFSET = 0, RUNS = 2, STEP = 1, LARGEST = 127 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint share = group / 2, low = byte_at(block + 2, share / 2) >> (share % 2 * 4) & 15;
    uint high = block[1] >> (2 * share) & 3;
    scale = half_of(block[0]) * (float(low | high << 4) - 32);
    offset = 0;
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      uint word = block[4 + 8 * share + i] >> (4 * (group % 2));
      q[2 * i] = iq4_nl_levels[word & 15];
      q[2 * i + 1] = iq4_nl_levels[word >> 8 & 15];
    }
  }
};

/* 256 weights: 16 bytes with a scale and a minimum of 4 bits for 16 weights, 64 bytes of 2-bit numbers, half scale,
 * half minimum. */
struct q2_k {
  enum { WEIGHTS = 256, WORDS = 42, OFFSET = 1, RUNS = 4, STEP = 2, LARGEST = 3 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint pair = byte_at(block, group);
    scale = half_of(block[40]) * float(pair & 15);
    offset = -(half_of(block[41]) * float(pair >> 4));
    bits_of(block + 8 + group / 8 * 16 + group % 2 * 8, group / 2 % 4 * 2, 3, q);
  }
};

/* 256 weights: 32 bytes of third bits, 64 bytes of 2-bit numbers, 12 bytes of 6-bit scales for 16 weights, half
 * scale. */
struct q3_k {
  enum { WEIGHTS = 256, WORDS = 55, OFFSET = 0, RUNS = 4, STEP = 2, LARGEST = 4 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint low = byte_at(block + 48, group % 8) >> (group / 8 * 4) & 15;
    uint high = byte_at(block + 52, group % 4) >> (group / 4 * 2) & 3;
    scale = half_of(block[54]) * (float(low | high << 4) - 32);
    offset = 0;
    bits_of(block + 16 + group / 8 * 16 + group % 2 * 8, group / 2 % 4 * 2, 3, block + group % 2 * 8, group / 2, 1, 2,
            4, q);
  }
};

/* The 6-bit scale (x) and minimum (y) of 32 weights among the 12 bytes of Q4_K and Q5_K (get_scale_min_k4). */
template <typename Words> static inline uint2 six_bits_at(Words words, uint i) {
  if (i < 4) return uint2(byte_at(words, i) & 63, byte_at(words, i + 4) & 63);
  uint low = byte_at(words, i + 4);
  return uint2((low & 15) | (byte_at(words, i - 4) >> 6) << 4, low >> 4 | (byte_at(words, i) >> 6) << 4);
}

/* 256 weights: half scale, half minimum, 12 bytes of 6-bit scales and minima for 32 weights, 128 bytes of nibbles. */
struct q4_k {
  enum { WEIGHTS = 256, WORDS = 72, OFFSET = 1, RUNS = 2, STEP = 2, LARGEST = 15 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint2 pair = six_bits_at(block + 2, group / 2);
    scale = half_of(block[0]) * float(pair.x);
    offset = -(half_of(block[1]) * float(pair.y));
    bits_of(block + 8 + group / 4 * 16 + group % 2 * 8, group / 2 % 2 * 4, 15, q);
  }
};

/* The same with 32 bytes of fifth bits before the nibbles. */
struct q5_k {
  enum { WEIGHTS = 256, WORDS = 88, OFFSET = 1, RUNS = 2, STEP = 2, LARGEST = 31 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint2 pair = six_bits_at(block + 2, group / 2);
    scale = half_of(block[0]) * float(pair.x);
    offset = -(half_of(block[1]) * float(pair.y));
    bits_of(block + 24 + group / 4 * 16 + group % 2 * 8, group / 2 % 2 * 4, 15, block + 8 + group % 2 * 8, group / 2, 1,
            4, 0, q);
  }
};

/* 256 weights: 128 bytes of nibbles, 64 bytes of two upper bits, 16 signed scales for 16 weights, half scale. */
struct q6_k {
  enum { WEIGHTS = 256, WORDS = 105, OFFSET = 0, RUNS = 4, STEP = 2, LARGEST = 32 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[104]) * signed_byte_at(block + 96, group);
    offset = 0;
    bits_of(block + group / 8 * 32 + group % 4 * 8, group / 4 % 2 * 4, 15, block + 64 + group / 8 * 16 + group % 2 * 8,
            group / 2 % 4 * 2, 3, 4, 32, q);
  }
};

/* 256 weights: 48 bytes of five digits to the base 3, the first with the first 32 (and then the other 16) weights, 4
 * bytes of four digits, half scale. scale (digit - 1). */
constant uint powers_of_3[5] = {1, 3, 9, 27, 81};
struct tq1_0 {
  enum { WEIGHTS = 256, WORDS = 27, OFFSET = 0, RUNS = 1, STEP = 1, LARGEST = 1 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[26]);
    offset = 0;
    uint first = group < 10 ? group % 2 * 16 : 32, place = group < 10 ? group / 2 : group - 10;
#pragma unroll
    for (uint i = 0; i < 16; ++i) {
      uint digits = byte_at(block, group < 15 ? first + i : 48 + i % 4);
      uint power = powers_of_3[group < 15 ? place : i / 4];
      q[i] = float((digits * power & 255) * 3 >> 8) - 1;
    }
  }
};

/* 256 weights: 64 bytes of 2-bit numbers, half scale. scale (q - 1). */
struct tq2_0 {
  enum { WEIGHTS = 256, WORDS = 33, OFFSET = 0, RUNS = 4, STEP = 2, LARGEST = 1 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    scale = half_of(block[32]);
    offset = 0;
    bits_of(block + group / 8 * 16 + group % 2 * 8, group / 2 % 4 * 2, 3, q);
#pragma unroll
    for (uint i = 0; i < 16; ++i) q[i] -= 1;
  }
};

/* 32 weights: an exponent, 16 bytes of nibbles, the low ones first: floats of 2 bits for the exponent and one for the
 * mantissa, doubled, times half of 2^(exponent - 127). OCP Microscaling Formats (MX) 1.0, sections 5.3.3 and 5.4.1. */
constant float mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
struct mxfp4 {
  enum { WEIGHTS = 32, WORDS = 17, OFFSET = 0, RUNS = 2, STEP = 1, LARGEST = 12 };
  template <typename Words>
  static void read(Words block, uint group, thread float &scale, thread float &offset, thread float *q) {
    uint exponent = block[0];
    scale = as_type<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
    offset = 0;
#pragma unroll
    for (uint i = 0; i < 16; ++i) q[i] = mxfp4_levels[block[1 + i] >> (4 * group) & 15];
  }
};

/* Where the block of a row begins that group `group` of it belongs to, counted over the row. */
template <typename Block, typename Words> static inline Words block_of(Words row, uint group) {
  return row + ulong(group / (Block::WEIGHTS / 16)) * Block::WORDS;
}

#endif
