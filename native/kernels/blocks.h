/* How weights lie in memory, and one of them as float: `TYPE::at(row, index)` for each type of weights. A row of a block type is read
 * byte by byte, as blocks have odd sizes.
 *
 * Layouts and formulas: ggml-common.h and dequantize_row_* of ggml-quants.c in llama.cpp. A product here is exact in float but q6_k's,
 * and there is at most one sum, so that no order of evaluation gives another result. */
#ifndef IRON_KERNELS_BLOCKS_H
#define IRON_KERNELS_BLOCKS_H

struct plain {
  static float at(device const float *values, ulong index) { return values[index]; }
  static float at(device const half *values, ulong index) { return float(values[index]); }
};

/* bfloat16 is the upper half of a float. Metal 3.0 has no type of that name. */
struct bfloat16 {
  static float at(device const ushort *values, ulong index) { return as_type<float>(uint(values[index]) << 16); }
};

static inline float half_at(device const uchar *bytes) {
  return float(as_type<half>(ushort(ushort(bytes[0]) | ushort(bytes[1]) << 8)));
}

/* Weight `i` of 32 among 16 bytes: the low nibbles first, then the high ones. */
static inline uint nibble_at(device const uchar *quants, uint i) { return quants[i % 16] >> (i / 16 * 4) & 15; }

/* Its fifth bit. */
static inline uint fifth_bit_at(device const uchar *high, uint i) { return (high[i / 8] >> (i % 8) & 1) << 4; }

/* 32 weights: half scale, 32 signed bytes. */
struct q8_0 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 34;
    return half_at(block) * float(as_type<char>(block[2 + index % 32]));
  }
};

/* 32 weights: half scale, 16 bytes of nibbles. scale (q - 8). */
struct q4_0 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 18;
    return half_at(block) * (float(nibble_at(block + 2, index % 32)) - 8);
  }
};

/* 32 weights: half scale, half minimum, 16 bytes of nibbles. scale q + minimum. */
struct q4_1 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 20;
    return half_at(block) * float(nibble_at(block + 4, index % 32)) + half_at(block + 2);
  }
};

/* 32 weights: half scale, 4 bytes of fifth bits, 16 bytes of nibbles. scale (q - 16). */
struct q5_0 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 22;
    uint i = index % 32;
    return half_at(block) * (float(nibble_at(block + 6, i) | fifth_bit_at(block + 2, i)) - 16);
  }
};

/* 32 weights: half scale, half minimum, 4 bytes of fifth bits, 16 bytes of nibbles. scale q + minimum. */
struct q5_1 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 24;
    uint i = index % 32;
    return half_at(block) * float(nibble_at(block + 8, i) | fifth_bit_at(block + 4, i)) + half_at(block + 2);
  }
};

/* 32 weights: half scale, 16 bytes of nibbles that choose among 16 levels (kvalues_iq4nl). */
constant char iq4_nl_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
struct iq4_nl {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 18;
    return half_at(block) * float(iq4_nl_levels[nibble_at(block + 2, index % 32)]);
  }
};

/* 256 weights: 16 bytes with a scale and a minimum of 4 bits for 16 weights, 64 bytes of 2-bit numbers, half scale, half minimum. */
struct q2_k {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 256 * 84;
    uint i = index % 256;
    uint pair = block[i / 16];
    uint quant = block[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    return half_at(block + 80) * float(pair & 15) * float(quant) - half_at(block + 82) * float(pair >> 4);
  }
};

/* 256 weights: 32 bytes of third bits, 64 bytes of 2-bit numbers, 12 bytes of 6-bit scales for 16 weights, half scale. */
struct q3_k {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 256 * 110;
    uint i = index % 256, group = i / 16;
    uint scale = (block[96 + group % 8] >> (group / 8 * 4) & 15) | (block[104 + group % 4] >> (group / 4 * 2) & 3) << 4;
    uint quant = (block[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) | (block[i % 32] >> (i / 32) & 1) << 2;
    return half_at(block + 108) * (float(scale) - 32) * (float(quant) - 4);
  }
};

/* The 6-bit scale (x) and minimum (y) of 32 weights among the 12 bytes of Q4_K and Q5_K (get_scale_min_k4). */
static inline uint2 six_bits_at(device const uchar *scales, uint group) {
  if (group < 4) return uint2(scales[group] & 63, scales[group + 4] & 63);
  return uint2((scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4, (scales[group + 4] >> 4) | (scales[group] >> 6) << 4);
}

/* 256 weights: half scale, half minimum, 12 bytes of 6-bit scales and minima for 32 weights, 128 bytes of nibbles. */
struct q4_k {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 256 * 144;
    uint i = index % 256;
    uint2 pair = six_bits_at(block + 4, i / 32);
    uint quant = block[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    return half_at(block) * float(pair.x) * float(quant) - half_at(block + 2) * float(pair.y);
  }
};

/* The same with 32 bytes of fifth bits before the nibbles. */
struct q5_k {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 256 * 176;
    uint i = index % 256;
    uint2 pair = six_bits_at(block + 4, i / 32);
    uint quant = (block[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15) | (block[16 + i % 32] >> (i / 32) & 1) << 4;
    return half_at(block) * float(pair.x) * float(quant) - half_at(block + 2) * float(pair.y);
  }
};

/* 256 weights: 128 bytes of nibbles, 64 bytes of two upper bits, 16 signed scales for 16 weights, half scale. */
struct q6_k {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 256 * 210;
    uint i = index % 256;
    uint low = block[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
    uint quant = low | (block[128 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) << 4;
    return half_at(block + 208) * float(as_type<char>(block[192 + i / 16])) * (float(quant) - 32);
  }
};

#endif
