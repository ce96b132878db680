/* matvec_panels_<B>_f32: the product of one row of activations, rounded to bytes, with weights in blocks. How it is
 * shared out: matvec_panels.h.
 *
 * One row of weights takes one of the 16 of a matrix product (byte_matrix.h). Each of its 8 columns is another block of
 * 32 activations: the others' are 0 there. So eight products leave the sums of eight blocks, each with a scale of its
 * own, in one matrix, of which a lane scales two columns. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "integer_dot.h"
#include "async_copy.h"
#include "row_copies.h"
#include "byte_matrix.h"
#include "byte_rows.h"
#include "packed_words.h"
#include "rotation.h"
#include "row_tiles.h"
#include "matvec_outputs.h"

constant constexpr uint ROWS = MATVEC_PANELS_ROWS;

/* Activations in threadgroup memory: of each 32 the words 0 4 1 5 2 6 3 7, so that a lane's two are neighbors; their
 * scale, and that times their sum; of each 16 the scale times the sum. */
struct byte_operands {
  threadgroup uint *words;
  threadgroup float2 *scales;
  threadgroup float *halves;
  void place(threadgroup uchar *memory, uint k) {
    words = (threadgroup uint *)memory;
    scales = (threadgroup float2 *)(words + k / 4);
    halves = (threadgroup float *)(scales + k / 32);
  }
  threadgroup float *end(uint k) const { return halves + k / 16; }
  /* Rounds eight activations of each lane. Whole SIMD-groups call it. */
  void keep(uint eight, float4 low, float4 high, bool exists) const {
    eight_bytes bytes(low, high);
    if (!exists) return;
    uint quarter = eight % 4;
    threadgroup uint *to = words + eight / 4 * 8 + quarter % 2 * 4 + quarter / 2;
    to[0] = bytes.low;
    to[2] = bytes.high;
    if (quarter % 2 == 0) halves[eight / 2] = bytes.scale * float(bytes.sum);
    if (quarter == 0) scales[eight / 4] = float2(bytes.scale, bytes.scale * float(bytes.block_sum));
  }
  /* Of block `lane / 4` of the eight of a unit what a lane multiplies. */
  uint2 at(uint unit, uint lane) const {
    return ((threadgroup const uint2 *)words)[(unit * 8 + lane / 4) * 4 + lane % 4];
  }
  /* Of blocks 2 t and 2 t + 1, t = lane % 4, the scales, and these times the sums. */
  float4 scales_of(uint unit, uint lane) const {
    return ((threadgroup const float4 *)scales)[unit * 4 + lane % 4];
  }
};

/* Of the eight blocks of a unit the words that a lane multiplies, in the column of each block: 0 but in its own,
 * lane / 4. And of blocks 2 t and 2 t + 1, t = lane % 4, the scales, and these times the sums. */
struct unit_columns {
  uint2 words[8];
  float4 scales;
  void load(thread const byte_operands &x, uint unit, uint lane) {
    uint2 own = x.at(unit, lane);
#pragma unroll
    for (uint i = 0; i < 8; ++i) words[i] = lane / 4 == i ? own : uint2(0);
    scales = x.scales_of(unit, lane);
  }
  void multiply(thread int *sums, uint i, uint a0, uint a1, uint a2, uint a3, uint lane) const {
    multiply_bytes(sums, a0, a1, a2, a3, words[i].x, words[i].y, lane);
  }
};

/* Where sums of a unit's even and odd products begin: as one their elements are sum_of(). */
struct column_sums {
  int even[4], odd[4];
  column_sums() {
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      even[i] = FLOAT_BITS;
      odd[i] = 0;
    }
  }
  float at(uint i) const { return sum_of(even[i] + odd[i]); }
};

/* Two blocks are 9 words: the first's scale, half a word, its 16 bytes, and the second's scale and bytes. */
struct panel_q4_0 {
  enum { BLOCK = 32, BYTES = 18, UNIT = 256 };
  typedef unit_columns columns;
  template <uint PITCH>
  static void multiply(threadgroup const uchar *rows, thread const columns &x, uint, uint lane, thread float *sums) {
    threadgroup const uint *u = (threadgroup const uint *)(rows + lane / 4 * PITCH), *l = u + 8 * PITCH / 4;
    uint t = lane % 4, p[8], q[8];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      p[2 * i] = straddling(u[9 * i + t], u[9 * i + t + 1]);
      p[2 * i + 1] = u[9 * i + t + 5];
      q[2 * i] = straddling(l[9 * i + t], l[9 * i + t + 1]);
      q[2 * i + 1] = l[9 * i + t + 5];
    }
    column_sums of;
#pragma unroll
    for (uint i = 0; i < 8; ++i)
      x.multiply(i % 2 ? of.odd : of.even, i, p[i] & 0x0f0f0f0fu, q[i] & 0x0f0f0f0fu, p[i] >> 4 & 0x0f0f0f0fu,
                 q[i] >> 4 & 0x0f0f0f0fu, lane);
    float4 s = x.scales;
    float even = 8 * s.y, odd = 8 * s.w;
    sums[0] += low_half(u[9 * t]) * (of.at(0) * s.x - even) + high_half(u[9 * t + 4]) * (of.at(1) * s.z - odd);
    sums[1] += low_half(l[9 * t]) * (of.at(2) * s.x - even) + high_half(l[9 * t + 4]) * (of.at(3) * s.z - odd);
  }
};

/* Two blocks are 17 words, likewise. */
struct panel_q8_0 {
  enum { BLOCK = 32, BYTES = 34, UNIT = 256 };
  typedef unit_columns columns;
  template <uint PITCH>
  static void multiply(threadgroup const uchar *rows, thread const columns &x, uint, uint lane, thread float *sums) {
    threadgroup const uint *u = (threadgroup const uint *)(rows + lane / 4 * PITCH), *l = u + 8 * PITCH / 4;
    uint t = lane % 4;
    column_sums of;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      threadgroup const uint *p = u + 17 * i + t, *q = l + 17 * i + t;
      x.multiply(of.even, 2 * i, straddling(p[0], p[1]), straddling(q[0], q[1]), straddling(p[4], p[5]),
                 straddling(q[4], q[5]), lane);
      x.multiply(of.odd, 2 * i + 1, p[9], q[9], p[13], q[13], lane);
    }
    float4 s = x.scales;
    sums[0] += low_half(u[17 * t]) * (of.at(0) * s.x) + high_half(u[17 * t + 8]) * (of.at(1) * s.z);
    sums[1] += low_half(l[17 * t]) * (of.at(2) * s.x) + high_half(l[17 * t + 8]) * (of.at(3) * s.z);
  }
};

struct panel_q4_k {
  enum { BLOCK = 256, BYTES = 144, UNIT = 256 };
  /* A row's part of blocks 2 t and 2 t + 1; their scales and minima, get_scale_min_k4 of ggml-quants.c. */
  static float scaled(uint4 head, uint t, float4 s, float first, float second) {
    uint shift = t % 2 * 16, s0 = head.y >> shift, s1 = head.z >> shift, s2 = head.w >> shift;
    uint factors = t < 2 ? s0 & 0x3f3fu : (s2 & 0x0f0fu) | (s0 >> 2 & 0x3030u);
    uint minima = t < 2 ? s1 & 0x3f3fu : (s2 >> 4 & 0x0f0fu) | (s1 >> 2 & 0x3030u);
    float products = float(factors & 255) * (s.x * first) + float(factors >> 8 & 255) * (s.z * second);
    float least = float(minima & 255) * s.y + float(minima >> 8 & 255) * s.w;
    return low_half(head.x) * products - high_half(head.x) * least;
  }
  typedef unit_columns columns;
  template <uint PITCH>
  static void multiply(threadgroup const uchar *rows, thread const columns &x, uint, uint lane, thread float *sums) {
    threadgroup const uint *u = (threadgroup const uint *)(rows + lane / 4 * PITCH), *l = u + 8 * PITCH / 4;
    uint t = lane % 4, p[8], q[8];
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      p[i] = u[4 + 4 * i + t];
      q[i] = l[4 + 4 * i + t];
    }
    column_sums of;
#pragma unroll
    for (uint i = 0; i < 8; i += 2) {
      x.multiply(of.even, i, p[i] & 0x0f0f0f0fu, q[i] & 0x0f0f0f0fu, p[i + 1] & 0x0f0f0f0fu, q[i + 1] & 0x0f0f0f0fu,
                 lane);
      x.multiply(of.odd, i + 1, p[i] >> 4 & 0x0f0f0f0fu, q[i] >> 4 & 0x0f0f0f0fu, p[i + 1] >> 4 & 0x0f0f0f0fu,
                 q[i + 1] >> 4 & 0x0f0f0f0fu, lane);
    }
    float4 s = x.scales;
    sums[0] += scaled(*(threadgroup const uint4 *)u, t, s, of.at(0), of.at(1));
    sums[1] += scaled(*(threadgroup const uint4 *)l, t, s, of.at(2), of.at(3));
  }
};

/* Each 16 weights have a scale: a block of 32 takes two columns, in each of which half of it is 0, and half a unit
 * makes a matrix of sums. Odd blocks start in the middle of a word. */
struct panel_q6_k {
  enum { BLOCK = 256, BYTES = 210, UNIT = 256 };
  /* The words of half a block that a lane multiplies, four bits and two bits of a weight. */
  struct words {
    uint low[4], high[2];
    static uint at(threadgroup const uint *from, uint shift) {
      return uint((ulong(from[1]) << 32 | from[0]) >> shift);
    }
    words(threadgroup const uint *block, uint shift, uint side, uint t) {
#pragma unroll
      for (uint i = 0; i < 4; ++i) low[i] = at(block + side * 16 + 4 * i + t, shift);
#pragma unroll
      for (uint i = 0; i < 2; ++i) high[i] = at(block + 32 + side * 8 + 4 * i + t, shift);
    }
    /* Of 32 weights i the first four of this lane's 16, or, far, the others. */
    uint of(uint i, uint far) const {
      uint nibbles = low[i % 2 * 2 + far] >> i / 2 * 4 & 0x0f0f0f0fu, bits = high[far];
      return nibbles | ((i < 2 ? bits << (4 - 2 * i) : bits >> (2 * i - 4)) & 0x30303030u);
    }
  };
  static float scaled(threadgroup const uchar *scales, float scale, float2 halves, float first, float second) {
    char2 of = as_type<char2>(*(threadgroup const ushort *)scales);
    return float(of.x) * (scale * first - halves.x) + float(of.y) * (scale * second - halves.y);
  }
  /* Of each half of a unit the words in its eight columns; the scale of block t; and 32 times those of its halves times
   * their sums. */
  struct columns {
    uint words[2][8];
    float scales[2];
    float2 halves[2];
    void load(thread const byte_operands &x, uint unit, uint lane) {
      uint g = lane / 4, t = lane % 4;
#pragma unroll
      for (uint side = 0; side < 2; ++side) {
        uint first = unit * 8 + side * 4, own = x.words[(first + g / 2) * 8 + 2 * t + g % 2];
#pragma unroll
        for (uint i = 0; i < 8; ++i) words[side][i] = g == i ? own : 0;
        scales[side] = x.scales[first + t].x;
        halves[side] = 32 * ((threadgroup const float2 *)x.halves)[first + t];
      }
    }
  };
  template <uint PITCH>
  static void multiply(threadgroup const uchar *rows, thread const columns &x, uint unit, uint lane,
                       thread float *sums) {
    threadgroup const uchar *upper = rows + lane / 4 * PITCH, *lower = upper + 8 * PITCH;
    uint t = lane % 4, odd = unit % 2 * 2;
    threadgroup const uint *u = (threadgroup const uint *)(upper - odd), *l = (threadgroup const uint *)(lower - odd);
    float upper_scale = half_of(*(threadgroup const ushort *)(upper + 208));
    float lower_scale = half_of(*(threadgroup const ushort *)(lower + 208));
#pragma unroll
    for (uint side = 0; side < 2; ++side) {
      words p(u, 8 * odd, side, t);
      words q(l, 8 * odd, side, t);
      column_sums of;
#pragma unroll
      for (uint i = 0; i < 4; ++i)
        multiply_bytes(i % 2 ? of.odd : of.even, p.of(i, 0), q.of(i, 0), p.of(i, 1), q.of(i, 1), x.words[side][2 * i],
                       x.words[side][2 * i + 1], lane);
      uint scales = 192 + side * 8 + 2 * t;
      sums[0] += upper_scale * scaled(upper + scales, x.scales[side], x.halves[side], of.at(0), of.at(1));
      sums[1] += lower_scale * scaled(lower + scales, x.scales[side], x.halves[side], of.at(2), of.at(3));
    }
  }
};

#include "matvec_panels.h"

#define LONG_SEGMENT(B) MATVEC_PANELS_LONG_SEGMENT(256 / B::BLOCK * B::BYTES)
#define SHORT_SEGMENT(B) MATVEC_PANELS_SHORT_SEGMENT(256 / B::BLOCK * B::BYTES)
#define PANELS(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_panels<__VA_ARGS__>) matvec_panels<__VA_ARGS__>;
#define FULL(NAME, B) PANELS(NAME, B, MATVEC_PANELS_SIMDGROUPS, LONG_SEGMENT(B), MATVEC_PANELS_RING, 4, false)
#define SHORT(NAME, B) \
  PANELS(NAME, B, MATVEC_PANELS_FEW_SIMDGROUPS, SHORT_SEGMENT(B), MATVEC_PANELS_SHORT_RING, 4, false)
#define PAIRED(NAME, B) \
  PANELS(NAME, B, MATVEC_PANELS_SIMDGROUPS, MATVEC_PANELS_PAIRED_SEGMENT, MATVEC_PANELS_PAIRED_RING, 1, true)

FULL("matvec_panels_q4_0_f32", panel_q4_0)
FULL("matvec_panels_q8_0_f32", panel_q8_0)
FULL("matvec_panels_q4_k_f32", panel_q4_k)
FULL("matvec_panels_q6_k_f32", panel_q6_k)
PAIRED("matvec_panels_paired_q4_0_f32", panel_q4_0)
PAIRED("matvec_panels_paired_q8_0_f32", panel_q8_0)
PAIRED("matvec_panels_paired_q4_k_f32", panel_q4_k)
PAIRED("matvec_panels_paired_q6_k_f32", panel_q6_k)
SHORT("matvec_panels_short_q4_0_f32", panel_q4_0)
SHORT("matvec_panels_short_q8_0_f32", panel_q8_0)
SHORT("matvec_panels_short_q4_k_f32", panel_q4_k)
SHORT("matvec_panels_short_q6_k_f32", panel_q6_k)
