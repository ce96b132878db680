/* matvec_wide_<B>_f32 and matvec_wide_narrow_<B>_f32: c = a op(b) + bias for one row of a, and for few, on devices of
 * so many cores that a SIMD-group for whole rows of b would leave most of them without work. Contract in args.h;
 * besides, a and b lie at multiples of 16 bytes, rows of b follow each other, and rows of a and each row of numbers
 * are multiples of 16 bytes.
 *
 * Geometry: threadgroups of 128 threads, each for ROWS columns and M rows of c: (n / ROWS, m / M, batch), rounded up.
 *
 * The four SIMD-groups of a threadgroup share out k, so that a product of few columns, too, has many reads of memory
 * under way. Neighbouring lanes take neighbouring weights of a block, a few each, so that both the weights and the
 * activations of a SIMD-group are consecutive memory; each activation is read once for all rows. A sum of the few
 * weights comes before their scale. After kernel_mul_mv of llama.cpp (ggml/src/ggml-metal/ggml-metal.metal), whose
 * nsg shares out k likewise. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"

constant constexpr uint SIMDGROUPS = 4;

/* The bits of `mask` of a word, which are below bit 23, as an integer less `origin`: those of the float 2^23 become
 * its last ones. No shift and no conversion is needed; who multiplies divides by what the mask's lowest bit is worth.
 * */
static inline float bits_at(uint word, uint mask, float origin) {
  return as_type<float>((word & mask) | 0x4b000000u) - (8388608.0f + origin);
}
static inline float sum_of(float4 x) { return (x.x + x.y) + (x.z + x.w); }

/* What a lane takes of a row in one step. `part`: which of the PARTS of a block, counted over the row; FOURS vectors
 * of four activations belong to it. `place` says where they are, `scale` divides them by what the bits of their
 * weights are worth. `read` and `times` are apart so that the reads of all rows are under way before the first
 * product. */

/* Four bytes of a block, which are two times four weights. */
struct wide_q4_0 {
  typedef ushort stored;
  enum { WEIGHTS = 32, PARTS = 4, FOURS = 2 };
  static uint place(uint part, uint four) { return part / 4 * 8 + part % 4 + four * 4; }
  static void scale(thread float4 *x) {
    x[0] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
    x[1] *= float4(1.0f / 16, 1.0f / 4096, 1.0f / 16, 1.0f / 4096);
  }
  struct words {
    ushort scale, low, high;
  };
  static void read(device const ushort *row, uint part, thread words &w) {
    device const ushort *block = row + part / 4 * 9;
    w.scale = block[0];
    w.low = block[1 + part % 4 * 2];
    w.high = block[2 + part % 4 * 2];
  }
  static float times(thread const words &block, uint, thread const float4 *x) {
    uint low = block.low, high = block.high;
    float4 first = float4(bits_at(low, 0xf, 8), bits_at(low, 0xf00, 2048), bits_at(high, 0xf, 8),
                          bits_at(high, 0xf00, 2048));
    float4 second = float4(bits_at(low, 0xf0, 128), bits_at(low, 0xf000, 32768), bits_at(high, 0xf0, 128),
                           bits_at(high, 0xf000, 32768));
    return half_of(block.scale) * sum_of(x[0] * first + x[1] * second);
  }
};

/* Eight bytes of a block. */
struct wide_q8_0 {
  typedef ushort stored;
  enum { WEIGHTS = 32, PARTS = 4, FOURS = 2 };
  static uint place(uint part, uint four) { return part * 2 + four; }
  static void scale(thread float4 *x) {
    x[0] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
    x[1] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
  }
  /* With the other sign bit a byte is 128 more. */
  static float4 bytes(uint low, uint high) {
    low ^= 0x8080u;
    high ^= 0x8080u;
    return float4(bits_at(low, 0xff, 128), bits_at(low, 0xff00, 32768), bits_at(high, 0xff, 128),
                  bits_at(high, 0xff00, 32768));
  }
  struct words {
    ushort scale, a, b, c, d;
  };
  static void read(device const ushort *row, uint part, thread words &w) {
    device const ushort *block = row + part / 4 * 17;
    device const ushort *eight = block + 1 + part % 4 * 4;
    w.scale = block[0];
    w.a = eight[0];
    w.b = eight[1];
    w.c = eight[2];
    w.d = eight[3];
  }
  static float times(thread const words &block, uint, thread const float4 *x) {
    return half_of(block.scale) * sum_of(x[0] * bytes(block.a, block.b) + x[1] * bytes(block.c, block.d));
  }
};

/* Eight bytes of nibbles, which are two times eight weights, of two scales. A block is nine times 16 bytes. */
struct wide_q4_k {
  typedef uint stored;
  enum { WEIGHTS = 256, PARTS = 16, FOURS = 4 };
  static uint place(uint part, uint four) {
    return part / 16 * 64 + part % 16 / 4 * 16 + part % 4 * 2 + four % 2 + four / 2 * 8;
  }
  static void scale(thread float4 *x) {
    x[0] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
    x[1] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
    x[2] *= float4(1.0f / 16, 1.0f / 4096, 1.0f / 16, 1.0f / 4096);
    x[3] *= float4(1.0f / 16, 1.0f / 4096, 1.0f / 16, 1.0f / 4096);
  }
  static float4 low_nibbles(uint low, uint high) {
    return float4(bits_at(low, 0xf, 0), bits_at(low, 0xf00, 0), bits_at(high, 0xf, 0), bits_at(high, 0xf00, 0));
  }
  static float4 high_nibbles(uint low, uint high) {
    return float4(bits_at(low, 0xf0, 0), bits_at(low, 0xf000, 0), bits_at(high, 0xf0, 0), bits_at(high, 0xf000, 0));
  }
  /* The sum of activations that were divided. */
  static float plain(float4 x, float4 y, float even, float odd) {
    float4 sum = x + y;
    return (sum.x + sum.z) * even + (sum.y + sum.w) * odd;
  }
  struct words {
    uint4 head;
    uint2 nibbles;
  };
  static void read(device const uint *row, uint part, thread words &w) {
    device const uint *block = row + part / 16 * 36;
    w.head = *(device const uint4 *)block;
    w.nibbles = *(device const uint2 *)(block + 4 + part % 16 * 2);
  }
  static float times(thread const words &block, uint part, thread const float4 *x) {
    uint4 head = block.head;
    uint2 q = block.nibbles;
    half2 scales = as_type<half2>(head.x);
    /* The scales and minima of two times 32 weights (get_scale_min_k4), each pair in a word. */
    uint pair = part % 16 / 4, shift = pair % 2 * 16;
    uint s0 = head.y >> shift, s1 = head.z >> shift, s2 = head.w >> shift;
    uint factors = pair < 2 ? s0 & 0x3f3fu : (s2 & 0x0f0fu) | (s0 >> 2 & 0x3030u);
    uint minima = pair < 2 ? s1 & 0x3f3fu : (s2 >> 4 & 0x0f0fu) | (s1 >> 2 & 0x3030u);
    uint q2 = q.x >> 16, q3 = q.y >> 16;
    float low = sum_of(x[0] * low_nibbles(q.x, q2) + x[1] * low_nibbles(q.y, q3));
    float high = sum_of(x[2] * high_nibbles(q.x, q2) + x[3] * high_nibbles(q.y, q3));
    float sum = plain(x[0], x[1], 1, 256), other = plain(x[2], x[3], 16, 4096);
    return float(scales.x) * (float(factors & 255) * low + float(factors >> 8) * high) -
           float(scales.y) * (float(minima & 255) * sum + float(minima >> 8) * other);
  }
};

/* Four bytes of nibbles, which are two times four weights, and four of upper bits, which lanes 32 weights further on
 * share. */
struct wide_q6_k {
  typedef ushort stored;
  enum { WEIGHTS = 256, PARTS = 32, FOURS = 2 };
  static uint place(uint part, uint four) { return part / 32 * 64 + part % 32 / 16 * 32 + part % 16 + four * 16; }
  static void scale(thread float4 *x) {
    x[0] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
    x[1] *= float4(1, 1.0f / 256, 1, 1.0f / 256);
  }
  static float4 six_bits(uint low, uint high) {
    return float4(bits_at(low, 0x3f, 32), bits_at(low, 0x3f00, 8192), bits_at(high, 0x3f, 32),
                  bits_at(high, 0x3f00, 8192));
  }
  struct words {
    ushort low, high, upper_low, upper_high, near, far, scale;
  };
  static void read(device const ushort *row, uint part, thread words &w) {
    device const ushort *block = row + part / 32 * 105;
    uint side = part % 32 / 16, first = part % 16 * 2, scale = side * 8 + part % 16 / 4;
    device const ushort *lower = block + side * 32 + first, *upper = block + 64 + side * 16 + first % 16;
    device const ushort *scales = block + 96 + scale / 2;
    w.low = lower[0];
    w.high = lower[1];
    w.upper_low = upper[0];
    w.upper_high = upper[1];
    w.near = scales[0];
    w.far = scales[2];
    w.scale = block[104];
  }
  static float times(thread const words &block, uint part, thread const float4 *x) {
    uint shift = part % 16 / 8 * 2, odd = part % 16 / 4 % 2 * 8;
    uint l0 = block.low, l1 = block.high, u0 = uint(block.upper_low) >> shift, u1 = uint(block.upper_high) >> shift;
    float4 near = six_bits((l0 & 0x0f0fu) | (u0 & 0x0303u) << 4, (l1 & 0x0f0fu) | (u1 & 0x0303u) << 4);
    float4 far = six_bits((l0 >> 4 & 0x0f0fu) | (u0 & 0x3030u), (l1 >> 4 & 0x0f0fu) | (u1 & 0x3030u));
    float near_scale = float(as_type<char>(uchar(uint(block.near) >> odd)));
    float far_scale = float(as_type<char>(uchar(uint(block.far) >> odd)));
    return half_of(block.scale) * (near_scale * sum_of(x[0] * near) + far_scale * sum_of(x[1] * far));
  }
};

/* Sixteen bytes of numbers. */
struct wide_f16 {
  typedef half stored;
  enum { WEIGHTS = 8, PARTS = 1, FOURS = 2 };
  static uint place(uint part, uint four) { return part * 2 + four; }
  static void scale(thread float4 *) {}
  typedef uint4 words;
  static void read(device const half *row, uint part, thread uint4 &w) { w = ((device const uint4 *)row)[part]; }
  static float times(thread const uint4 &eight, uint, thread const float4 *x) {
    half2 a = as_type<half2>(eight.x), b = as_type<half2>(eight.y);
    half2 c = as_type<half2>(eight.z), d = as_type<half2>(eight.w);
    return sum_of(x[0] * float4(float(a.x), float(a.y), float(b.x), float(b.y)) +
                  x[1] * float4(float(c.x), float(c.y), float(d.x), float(d.y)));
  }
};
struct wide_bf16 {
  typedef ushort stored;
  enum { WEIGHTS = 8, PARTS = 1, FOURS = 2 };
  static uint place(uint part, uint four) { return part * 2 + four; }
  static void scale(thread float4 *) {}
  typedef uint4 words;
  static void read(device const ushort *row, uint part, thread uint4 &w) { w = ((device const uint4 *)row)[part]; }
  static float times(thread const uint4 &eight, uint, thread const float4 *x) {
    uint4 even = eight << 16, odd = eight & 0xffff0000u;
    return sum_of(x[0] * float4(as_type<float>(even.x), as_type<float>(odd.x), as_type<float>(even.y),
                                as_type<float>(odd.y)) +
                  x[1] * float4(as_type<float>(even.z), as_type<float>(odd.z), as_type<float>(even.w),
                                as_type<float>(odd.w)));
  }
};
struct wide_f32 {
  typedef float stored;
  enum { WEIGHTS = 4, PARTS = 1, FOURS = 1 };
  static uint place(uint part, uint) { return part; }
  static void scale(thread float4 *) {}
  typedef float4 words;
  static void read(device const float *row, uint part, thread float4 &w) { w = ((device const float4 *)row)[part]; }
  static float times(thread const float4 &four, uint, thread const float4 *x) {
    return sum_of(x[0] * four);
  }
};

/* The sums over a SIMD-group of N values of each lane: N a power of two. Lane i gets that of value i / (32 / N). */
template <uint N> static inline float fold(thread float *values, uint lane) {
  uint bit = 16;
#pragma unroll
  for (uint pairs = N / 2; pairs > 0; pairs /= 2, bit /= 2) {
    bool upper = (lane & bit) != 0;
#pragma unroll
    for (uint i = 0; i < pairs; ++i) {
      float kept = upper ? values[i + pairs] : values[i], given = upper ? values[i] : values[i + pairs];
      values[i] = kept + simd_shuffle_xor(given, ushort(bit));
    }
  }
  float sum = values[0];
#pragma unroll
  for (; bit > 0; bit /= 2) sum += simd_shuffle_xor(sum, ushort(bit));
  return sum;
}

/* M: rows of a, ROWS: rows of b, for a threadgroup; STORED: how many of B::stored a block has. */
template <typename B, uint STORED, uint M, uint ROWS>
[[kernel]] void matvec_wide(device const float *a [[buffer(MATMUL_A)]],
                            device const typename B::stored *b [[buffer(MATMUL_B)]],
                            device const float *bias [[buffer(MATMUL_BIAS)]], device float *c [[buffer(MATMUL_C)]],
                            constant matmul_args &args [[buffer(MATMUL_ARGS)]],
                            uint3 position [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]],
                            uint thread_index [[thread_index_in_threadgroup]]) {
  constexpr uint FOURS = B::FOURS, SUMS = M * ROWS;
  threadgroup float parts[SIMDGROUPS][SUMS];
  uint first = position.x * ROWS, top = position.y * M;
  ulong z = position.z, row_stored = args.b_row_stride / B::WEIGHTS * STORED;
  a += z * args.a_batch_stride;
  b += z * args.b_batch_stride / B::WEIGHTS * STORED;
  c += z * args.c_batch_stride;

  /* Past the last row and the last column stand these again; their sums are not written. */
  device const float4 *values[M];
  device const typename B::stored *rows[ROWS];
#pragma unroll
  for (uint i = 0; i < M; ++i)
    values[i] = (device const float4 *)(a + (M == 1 ? 0 : min(top + i, args.m - 1) * args.a_row_stride));
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) rows[j] = b + min(first + j, args.n - 1) * row_stored;
  float sums[SUMS];
#pragma unroll
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0;
  uint all = args.k / B::WEIGHTS * B::PARTS;
#pragma unroll 2
  for (uint part = simdgroup * 32 + lane; part < all; part += SIMDGROUPS * 32) {
    typename B::words words[ROWS];
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) B::read(rows[j], part, words[j]);
    float4 x[M][FOURS];
#pragma unroll
    for (uint i = 0; i < M; ++i) {
#pragma unroll
      for (uint four = 0; four < FOURS; ++four) x[i][four] = values[i][B::place(part, four)];
      B::scale(x[i]);
    }
#pragma unroll
    for (uint j = 0; j < ROWS; ++j)
#pragma unroll
      for (uint i = 0; i < M; ++i) sums[i * ROWS + j] += B::times(words[j], part, x[i]);
  }

  constexpr uint LANES = 32 / SUMS; /* that have the same sum */
  float sum = fold<SUMS>(sums, lane);
  if (lane % LANES == 0) parts[simdgroup][lane / LANES] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint row = top + thread_index / ROWS, column = first + thread_index % ROWS;
  if (thread_index >= SUMS || row >= args.m || column >= args.n) return;
  sum = 0;
#pragma unroll
  for (uint i = 0; i < SIMDGROUPS; ++i) sum += parts[i][thread_index];
  if (args.has_bias) sum += bias[column];
  c[row * args.c_row_stride + column] = sum;
}

#define WIDE(NAME, B, STORED, M, ROWS) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_wide<B, STORED, M, ROWS>) matvec_wide<B, STORED, M, ROWS>;

WIDE("matvec_wide_f32_f32", wide_f32, 4, 1, 1)
WIDE("matvec_wide_f16_f32", wide_f16, 8, 1, 1)
WIDE("matvec_wide_bf16_f32", wide_bf16, 8, 1, 1)
WIDE("matvec_wide_q4_0_f32", wide_q4_0, 9, 1, 4)
WIDE("matvec_wide_q8_0_f32", wide_q8_0, 17, 1, 4)
WIDE("matvec_wide_q4_k_f32", wide_q4_k, 36, 1, 4)
WIDE("matvec_wide_q6_k_f32", wide_q6_k, 105, 1, 4)
WIDE("matvec_wide_narrow_f32_f32", wide_f32, 4, 4, 4)
WIDE("matvec_wide_narrow_f16_f32", wide_f16, 8, 4, 4)
WIDE("matvec_wide_narrow_bf16_f32", wide_bf16, 8, 4, 4)
WIDE("matvec_wide_narrow_q4_0_f32", wide_q4_0, 9, 4, 4)
WIDE("matvec_wide_narrow_q8_0_f32", wide_q8_0, 17, 4, 4)
WIDE("matvec_wide_narrow_q4_k_f32", wide_q4_k, 36, 4, 4)
WIDE("matvec_wide_narrow_q6_k_f32", wide_q6_k, 105, 4, 4)
