/* matvec_bytes_<B>_f32: the product of one row of activations with weights in blocks. How it is shared out:
 * matvec_ring.h.
 *
 * Activations are rounded: 128 times one byte plus another, of which each 32 share a scale, the rounding of the
 * processor's native kernels for few rows. A lane multiplies 32 weights of each row, four in one instruction. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "integer_dot.h"
#include "async_copy.h"
#include "rotation.h"
#include "row_tiles.h"
#include "matvec_outputs.h"
#include "matvec_ring.h"

/* What a lane multiplies. */
struct rounded_operands {
  uint upper[8], lower[8];
  float scale[2];
  int sum[2];
};

/* Of each 32 weights that a lane multiplies, which are two times 16: upper and lower bytes of the activations in the
 * order in which it does, and of both 16 the scales and the sums of the integers. */
struct rounded {
  threadgroup uint4 *upper[2], *lower[2], *about;
  void place(threadgroup uint4 *memory, uint k) {
    upper[0] = memory;
    upper[1] = upper[0] + k / 32;
    lower[0] = upper[1] + k / 32;
    lower[1] = lower[0] + k / 32;
    about = lower[1] + k / 32;
  }
  threadgroup float *end(uint k) const { return (threadgroup float *)(about + k / 32); }
  /* Rounds them; 8 lanes have a block of 32. */
  template <typename B> void keep(uint four, float4 x, bool exists) const {
    float4 size = fabs(x);
    float largest = max(max(size.x, size.y), max(size.z, size.w));
#pragma unroll
    for (uint bit = 4; bit > 0; bit /= 2) largest = max(largest, simd_shuffle_xor(largest, ushort(bit)));
    float scale = largest / 16256.0f, inverse = largest > 0 ? 16256.0f / largest : 0.0f;
    uint high_bytes = 0, low_bytes = 0;
    int sum = 0;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      int whole = int(rint(x[i] * inverse)), high = (whole + 64) >> 7, low = whole - 128 * high;
      high_bytes |= uint(high & 255) << 8 * i;
      low_bytes |= uint(low & 255) << 8 * i;
      sum += whole;
    }
    sum += simd_shuffle_xor(sum, ushort(1));
    sum += simd_shuffle_xor(sum, ushort(2));
    if (!exists) return;
    uint slot = B::slot(four), part = slot / 8, far = slot % 8 / 4, word = slot % 4;
    ((threadgroup uint *)(upper[far] + part))[word] = high_bytes;
    ((threadgroup uint *)(lower[far] + part))[word] = low_bytes;
    if (word == 0) {
      threadgroup uint *words = (threadgroup uint *)(about + part);
      words[far] = as_type<uint>(scale);
      words[2 + far] = uint(sum);
    }
  }
  rounded_operands at(uint part) const {
    uint4 u = upper[0][part], v = upper[1][part], s = lower[0][part], t = lower[1][part], w = about[part];
    return {{u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w},
            {s.x, s.y, s.z, s.w, t.x, t.y, t.z, t.w},
            {as_type<float>(w.x), as_type<float>(w.y)},
            {int(w.z), int(w.w)}};
  }
};

/* The sum of products of COUNT words, of the activations from word `first` on. */
template <uint COUNT> static inline int products(thread const uint *q, thread const rounded_operands &x, uint first) {
  int u = 0, v = 0;
#pragma unroll
  for (uint i = 0; i < COUNT; ++i) {
    u = dot_of_bytes(q[i], x.upper[first + i], u);
    v = dot_of_bytes(q[i], x.lower[first + i], v);
  }
  return 128 * u + v;
}

/* The COUNT words that start `shift` bits, 0, 16 or 32, behind the start of `from`. */
template <uint COUNT> static inline void words_at(threadgroup const uint *from, uint shift, thread uint *words) {
  uint read[COUNT + 1];
#pragma unroll
  for (uint i = 0; i <= COUNT; ++i) read[i] = from[i];
#pragma unroll
  for (uint i = 0; i < COUNT; ++i) words[i] = uint((ulong(read[i + 1]) << 32 | read[i]) >> shift);
}

/* Types of weights. `slot`: which word of which lane's 32 weights the four activations from 4 word on belong to, as
 * 8 part + word. */
struct of_bytes {
  enum { LANE = 32, EARLY = 1 };
  typedef rounded row;
  typedef rounded_operands operands;
};

/* Blocks of a scale and of whole words, which thus lie at odd multiples of two bytes or the scale does. */
template <uint WORDS> static inline float scale_and_words(threadgroup const uint *from, uint byte, thread uint *words) {
  uint shift = byte % 4 * 8, first = from[byte / 4];
  words_at<WORDS>(from + byte / 4, 16 + shift, words);
  return half_of(ushort(first >> shift & 0xffffu));
}

struct bytes_q4_0 : of_bytes {
  enum { BLOCK = 32, BYTES = 18 };
  static uint slot(uint word) { return word; }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const rounded_operands &x) {
    uint words[4], low[4], high[4];
    float scale = scale_and_words<4>(from, byte + lane * 18, words);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      low[i] = words[i] & 0x0f0f0f0fu;
      high[i] = words[i] >> 4 & 0x0f0f0f0fu;
    }
    int sum = products<4>(low, x, 0) + products<4>(high, x, 4) - 8 * (x.sum[0] + x.sum[1]);
    return scale * (x.scale[0] * float(sum));
  }
};

struct bytes_q8_0 : of_bytes {
  enum { BLOCK = 32, BYTES = 34 };
  static uint slot(uint word) { return word; }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const rounded_operands &x) {
    uint words[8];
    float scale = scale_and_words<8>(from, byte + lane * 34, words);
    return scale * (x.scale[0] * float(products<8>(words, x, 0)));
  }
};

struct bytes_q4_k : of_bytes {
  enum { BLOCK = 256, BYTES = 144 };
  static uint slot(uint word) {
    uint within = word % 64, pair = within / 16, far = within % 16 / 8, rest = within % 8;
    return (word / 64 * 8 + pair * 2 + rest / 4) * 8 + far * 4 + rest % 4;
  }
  static float times(threadgroup const uint *from, uint, uint lane, thread const rounded_operands &x) {
    threadgroup const uint4 *block = (threadgroup const uint4 *)from + lane / 8 * 9;
    uint4 head = block[0], nibbles = block[1 + lane % 8];
    half2 scales = as_type<half2>(head.x);
    /* The scales and minima of two times 32 weights (get_scale_min_k4), each pair in a word. */
    uint pair = lane % 8 / 2, shift = pair % 2 * 16;
    uint s0 = head.y >> shift, s1 = head.z >> shift, s2 = head.w >> shift;
    uint factors = pair < 2 ? s0 & 0x3f3fu : (s2 & 0x0f0fu) | (s0 >> 2 & 0x3030u);
    uint minima = pair < 2 ? s1 & 0x3f3fu : (s2 >> 4 & 0x0f0fu) | (s1 >> 2 & 0x3030u);
    uint4 lower = nibbles & 0x0f0f0f0fu, upper = nibbles >> 4 & 0x0f0f0f0fu;
    uint low[4] = {lower.x, lower.y, lower.z, lower.w}, high[4] = {upper.x, upper.y, upper.z, upper.w};
    float first = x.scale[0] * float(int(factors & 255) * products<4>(low, x, 0));
    float second = x.scale[1] * float(int(factors >> 8 & 255) * products<4>(high, x, 4));
    float least = x.scale[0] * float(int(minima & 255) * x.sum[0]) +
                  x.scale[1] * float(int(minima >> 8 & 255) * x.sum[1]);
    return float(scales.x) * (first + second) - float(scales.y) * least;
  }
};

struct bytes_q6_k : of_bytes {
  enum { BLOCK = 256, BYTES = 210 };
  static uint slot(uint word) {
    uint within = word % 64, side = within / 32, far = within % 32 / 16, rest = within % 16;
    return (word / 64 * 8 + side * 4 + rest / 4) * 8 + far * 4 + rest % 4;
  }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const rounded_operands &x) {
    uint start = byte + lane / 8 * 210, side = lane % 8 / 4, quarter = lane % 4, shift = start % 4 * 8;
    threadgroup const uint *block = from + start / 4;
    uint lower[4], upper[4], near[4], far[4];
    words_at<4>(block + side * 16 + quarter * 4, shift, lower);
    words_at<4>(block + 32 + side * 8 + quarter % 2 * 4, shift, upper);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint high = upper[i] >> quarter / 2 * 2;
      near[i] = (lower[i] & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
      far[i] = (lower[i] >> 4 & 0x0f0f0f0fu) | (high & 0x30303030u);
    }
    threadgroup const uchar *bytes = (threadgroup const uchar *)from + start;
    threadgroup const char *scales = (threadgroup const char *)bytes + 192 + side * 8 + quarter;
    float first = x.scale[0] * float(int(scales[0]) * (products<4>(near, x, 0) - 32 * x.sum[0]));
    float second = x.scale[1] * float(int(scales[4]) * (products<4>(far, x, 4) - 32 * x.sum[1]));
    return half_of(*(threadgroup const ushort *)(bytes + 208)) * (first + second);
  }
};

#define STAGES_OF(B) MATVEC_BYTES_STAGES(MATVEC_BYTES_SEGMENT / B::BLOCK * B::BYTES)
#define BYTES(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_ring<__VA_ARGS__>) matvec_ring<__VA_ARGS__>;

BYTES("matvec_bytes_q4_0_f32", bytes_q4_0, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q4_0))
BYTES("matvec_bytes_q8_0_f32", bytes_q8_0, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q8_0))
BYTES("matvec_bytes_q4_k_f32", bytes_q4_k, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q4_k))
BYTES("matvec_bytes_q6_k_f32", bytes_q6_k, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q6_k))
BYTES("matvec_bytes_short_q4_0_f32", bytes_q4_0, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q8_0_f32", bytes_q8_0, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q4_k_f32", bytes_q4_k, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q6_k_f32", bytes_q6_k, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
