/* matvec_bytes_<B>_f32 and matvec_bytes_round: c = a op(b) + bias for one row of a and weights in blocks, on devices
 * of many cores, with activations that were rounded to 16 bits. Contract in args.h; besides, b lies at multiples of
 * 16 bytes, its rows follow each other, and the batch is one.
 *
 * Geometry: threadgroups of 128 threads, each for 4 columns of c: (n / 4, 1, 1), rounded up. Rounding: a thread for
 * each activation, in threadgroups of 256: (k / 256, 1, 1), rounded up.
 *
 * What limits matvec_wide is how many instructions a weight takes. Four weights that are bytes are multiplied in one
 * with four activations that are. An activation is 128 times one byte plus another, of which each 32 share a scale:
 * the rounding of the processor's native kernels for few rows. What a lane takes of a row is as in matvec_wide, and
 * the reads of two parts of all rows are under way before the first product. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "integer_dot.h"

constant constexpr uint SIMDGROUPS = 4, ROWS = 4, ONES = 0x01010101;

/* out: upper bytes, lower bytes, then scales of 32. */
[[kernel]] void matvec_bytes_round(device const float *x [[buffer(ELEMENTWISE_A)]],
                                   device uchar *out [[buffer(ELEMENTWISE_B)]],
                                   constant elementwise_args &args [[buffer(ELEMENTWISE_OUT)]],
                                   uint group [[threadgroup_position_in_grid]],
                                   uint thread_index [[thread_index_in_threadgroup]],
                                   uint lane [[thread_index_in_simdgroup]]) {
  uint count = uint(args.count), place = group * 256 + thread_index;
  if (place >= count) return;
  float value = x[place];
  float largest = simd_max(fabs(value));
  float scale = largest / 16256.0f;
  float inverse = largest > 0 ? 16256.0f / largest : 0.0f;
  int whole = int(rint(value * inverse));
  int upper = (whole + 64) >> 7, lower = whole - 128 * upper;
  out[place] = uchar(upper & 255);
  out[count + place] = uchar(lower & 255);
  if (lane == 0) ((device float *)(out + 2 * count))[place / 32] = scale;
}

/* Activations of a lane: words of upper and of lower bytes. The first half of them has one scale and the other half
 * another, or the same; sums are those of the halves. */
template <uint WORDS> struct activations {
  uint upper[WORDS], lower[WORDS];
  float first_scale, second_scale;
  int first_sum, second_sum;
};

/* The sum of products with the words from `first` on. */
template <uint COUNT, uint WORDS>
static inline int products(thread const activations<WORDS> &x, uint first, thread const uint *q) {
  int upper = 0, lower = 0;
#pragma unroll
  for (uint i = 0; i < COUNT; ++i) {
    upper = dot_of_bytes(q[i], x.upper[first + i], upper);
    lower = dot_of_bytes(q[i], x.lower[first + i], lower);
  }
  return 128 * upper + lower;
}

/* What a lane takes of a row: `part` of the PARTS of a block, counted over the row, which is multiplied with WORDS
 * words of activations. */

/* Eight bytes of a block, which are two times eight weights. */
struct bytes_q4_0 {
  typedef ushort stored;
  enum { WEIGHTS = 32, PARTS = 2, WORDS = 4 };
  struct words {
    ushort scale, a, b, c, d;
  };
  static uint place(uint part, uint word) { return part / 2 * 8 + part % 2 * 2 + word % 2 + word / 2 * 4; }
  static void read(device const ushort *row, uint part, thread words &w) {
    device const ushort *block = row + part / 2 * 9;
    device const ushort *four = block + 1 + part % 2 * 4;
    w.scale = block[0];
    w.a = four[0];
    w.b = four[1];
    w.c = four[2];
    w.d = four[3];
  }
  static float times(thread const words &block, uint, thread const activations<WORDS> &x) {
    uint a = uint(block.a) | uint(block.b) << 16, b = uint(block.c) | uint(block.d) << 16;
    uint q[4] = {a & 0x0f0f0f0fu, b & 0x0f0f0f0fu, a >> 4 & 0x0f0f0f0fu, b >> 4 & 0x0f0f0f0fu};
    int sum = products<4>(x, 0, q) - 8 * (x.first_sum + x.second_sum);
    return half_of(block.scale) * (x.first_scale * float(sum));
  }
};

/* Eight bytes of a block. */
struct bytes_q8_0 {
  typedef ushort stored;
  enum { WEIGHTS = 32, PARTS = 4, WORDS = 2 };
  struct words {
    ushort scale, a, b, c, d;
  };
  static uint place(uint part, uint word) { return part * 2 + word; }
  static void read(device const ushort *row, uint part, thread words &w) {
    device const ushort *block = row + part / 4 * 17;
    device const ushort *four = block + 1 + part % 4 * 4;
    w.scale = block[0];
    w.a = four[0];
    w.b = four[1];
    w.c = four[2];
    w.d = four[3];
  }
  static float times(thread const words &block, uint, thread const activations<WORDS> &x) {
    uint q[2] = {uint(block.a) | uint(block.b) << 16, uint(block.c) | uint(block.d) << 16};
    return half_of(block.scale) * (x.first_scale * float(products<2>(x, 0, q)));
  }
};

/* Eight bytes of nibbles, which are two times eight weights, of two scales. A block is nine times 16 bytes. */
struct bytes_q4_k {
  typedef uint stored;
  enum { WEIGHTS = 256, PARTS = 16, WORDS = 4 };
  struct words {
    uint4 head;
    uint2 nibbles;
  };
  static uint place(uint part, uint word) {
    return part / 16 * 64 + part % 16 / 4 * 16 + part % 4 * 2 + word % 2 + word / 2 * 8;
  }
  static void read(device const uint *row, uint part, thread words &w) {
    device const uint *block = row + part / 16 * 36;
    w.head = *(device const uint4 *)block;
    w.nibbles = *(device const uint2 *)(block + 4 + part % 16 * 2);
  }
  static float times(thread const words &block, uint part, thread const activations<WORDS> &x) {
    half2 scales = as_type<half2>(block.head.x);
    /* The scales and minima of two times 32 weights (get_scale_min_k4), each pair in a word. */
    uint pair = part % 16 / 4, shift = pair % 2 * 16;
    uint s0 = block.head.y >> shift, s1 = block.head.z >> shift, s2 = block.head.w >> shift;
    uint factors = pair < 2 ? s0 & 0x3f3fu : (s2 & 0x0f0fu) | (s0 >> 2 & 0x3030u);
    uint minima = pair < 2 ? s1 & 0x3f3fu : (s2 >> 4 & 0x0f0fu) | (s1 >> 2 & 0x3030u);
    uint low[2] = {block.nibbles.x & 0x0f0f0f0fu, block.nibbles.y & 0x0f0f0f0fu};
    uint high[2] = {block.nibbles.x >> 4 & 0x0f0f0f0fu, block.nibbles.y >> 4 & 0x0f0f0f0fu};
    float first = x.first_scale * float(int(factors & 255) * products<2>(x, 0, low));
    float second = x.second_scale * float(int(factors >> 8) * products<2>(x, 2, high));
    float least = x.first_scale * float(int(minima & 255) * x.first_sum) +
                  x.second_scale * float(int(minima >> 8) * x.second_sum);
    return float(scales.x) * (first + second) - float(scales.y) * least;
  }
};

/* Four bytes of nibbles, which are two times four weights, and four of upper bits, which lanes 32 weights further on
 * share. */
struct bytes_q6_k {
  typedef ushort stored;
  enum { WEIGHTS = 256, PARTS = 32, WORDS = 2 };
  struct words {
    ushort low, high, upper_low, upper_high, near, far, scale;
  };
  static uint place(uint part, uint word) { return part / 32 * 64 + part % 32 / 16 * 32 + part % 16 + word * 16; }
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
  static float times(thread const words &block, uint part, thread const activations<WORDS> &x) {
    uint shift = part % 16 / 8 * 2, odd = part % 16 / 4 % 2 * 8;
    uint low = uint(block.low) | uint(block.high) << 16;
    uint upper = (uint(block.upper_low) | uint(block.upper_high) << 16) >> shift;
    uint near[1] = {(low & 0x0f0f0f0fu) | (upper & 0x03030303u) << 4};
    uint far[1] = {(low >> 4 & 0x0f0f0f0fu) | (upper & 0x30303030u)};
    int near_scale = int(as_type<char>(uchar(uint(block.near) >> odd & 255)));
    int far_scale = int(as_type<char>(uchar(uint(block.far) >> odd & 255)));
    float first = x.first_scale * float(near_scale * (products<1>(x, 0, near) - 32 * x.first_sum));
    float second = x.second_scale * float(far_scale * (products<1>(x, 1, far) - 32 * x.second_sum));
    return half_of(block.scale) * (first + second);
  }
};

template <typename B>
static inline void read_activations(device const uint *a, uint k, uint part, thread activations<B::WORDS> &x) {
#pragma unroll
  for (uint i = 0; i < B::WORDS; ++i) {
    x.upper[i] = a[B::place(part, i)];
    x.lower[i] = a[k / 4 + B::place(part, i)];
  }
  device const float *scales = (device const float *)(a + k / 2);
  x.first_scale = scales[B::place(part, 0) / 8];
  x.second_scale = scales[B::place(part, B::WORDS - 1) / 8];
  uint ones[B::WORDS];
#pragma unroll
  for (uint i = 0; i < B::WORDS; ++i) ones[i] = ONES;
  x.first_sum = products<B::WORDS / 2>(x, 0, ones);
  x.second_sum = products<B::WORDS / 2>(x, B::WORDS / 2, ones);
}

/* STORED: how many of B::stored a block has. */
template <typename B, uint STORED>
[[kernel]] void matvec_bytes(device const uint *a [[buffer(MATMUL_A)]],
                             device const typename B::stored *b [[buffer(MATMUL_B)]],
                             device const float *bias [[buffer(MATMUL_BIAS)]], device float *c [[buffer(MATMUL_C)]],
                             constant matmul_args &args [[buffer(MATMUL_ARGS)]],
                             uint3 position [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint thread_index [[thread_index_in_threadgroup]]) {
  constexpr uint STEP = SIMDGROUPS * 32;
  threadgroup float parts[SIMDGROUPS][ROWS];
  uint first = position.x * ROWS;
  ulong row_stored = args.b_row_stride / B::WEIGHTS * STORED;
  /* Past the last column stands the last one again; its sums are not written. */
  device const typename B::stored *rows[ROWS];
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) rows[j] = b + min(first + j, args.n - 1) * row_stored;

  float sums[ROWS];
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) sums[j] = 0;
  uint all = args.k / B::WEIGHTS * B::PARTS;
  for (uint part = simdgroup * 32 + lane; part < all; part += 2 * STEP) {
    bool two = part + STEP < all;
    uint other = two ? part + STEP : part;
    typename B::words words[ROWS], others[ROWS];
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) B::read(rows[j], part, words[j]);
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) B::read(rows[j], other, others[j]);
    activations<B::WORDS> x, y;
    read_activations<B>(a, args.k, part, x);
    read_activations<B>(a, args.k, other, y);
    if (!two) y.first_scale = 0, y.second_scale = 0;
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) sums[j] += B::times(words[j], part, x) + B::times(others[j], other, y);
  }

#pragma unroll
  for (uint j = 0; j < ROWS; ++j)
#pragma unroll
    for (uint bit = 16; bit > 0; bit /= 2) sums[j] += simd_shuffle_xor(sums[j], ushort(bit));
  if (lane == 0)
#pragma unroll
    for (uint j = 0; j < ROWS; ++j) parts[simdgroup][j] = sums[j];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_index >= ROWS || first + thread_index >= args.n) return;
  float sum = 0;
#pragma unroll
  for (uint i = 0; i < SIMDGROUPS; ++i) sum += parts[i][thread_index];
  if (args.has_bias) sum += bias[first + thread_index];
  c[first + thread_index] = sum;
}

#define BYTES(NAME, B, STORED) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_bytes<B, STORED>) matvec_bytes<B, STORED>;

BYTES("matvec_bytes_q4_0_f32", bytes_q4_0, 9)
BYTES("matvec_bytes_q8_0_f32", bytes_q8_0, 17)
BYTES("matvec_bytes_q4_k_f32", bytes_q4_k, 36)
BYTES("matvec_bytes_q6_k_f32", bytes_q6_k, 105)
