/* matvec_bytes_<B>_f32: the product of one row of activations with weights in blocks on devices of many cores, with
 * what stands before and behind it in a model. Contract in args.h; besides, a, norm, normed and b lie at multiples of
 * 16 bytes, and so do the rows of b, whose k weights are multiples of 16 bytes, too.
 *
 * Geometry: as many threadgroups as the device has cores, (cores, 1, 1), of 32 MATVEC_BYTES_SIMDGROUPS threads; short:
 * of 32 MATVEC_BYTES_FEW_SIMDGROUPS. Threadgroup memory: MATVEC_BYTES_MEMORY of args.h.
 *
 * A threadgroup first rounds the activations for itself: 128 times one byte plus another, of which each 32 share a
 * scale, the rounding of the processor's native kernels for few rows. Then it takes tiles of ROWS rows of b, cut into
 * segments of 1024 weights. Each SIMD-group has a ring of segments of its own, which it fills ahead of what it
 * multiplies, and already before the kernel's predecessor has ended: weights depend on nobody. A lane multiplies 32
 * weights of each row, four in one instruction. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "integer_dot.h"
#include "async_copy.h"

constant constexpr uint ROWS = MATVEC_BYTES_ROWS, TILES = MATVEC_BYTES_TILES;

/* Of each 32 weights that a lane multiplies, which are two times 16: upper and lower bytes of the activations in the
 * order in which it does, and of both 16 the scales and the sums of the integers. */
struct rounded {
  threadgroup uint4 *upper[2], *lower[2], *about;
};

/* What a lane multiplies. */
struct operands {
  uint upper[8], lower[8];
  float scale[2];
  int sum[2];
};

/* The sum of products of COUNT words, of the activations from word `first` on. */
template <uint COUNT> static inline int products(thread const uint *q, thread const operands &x, uint first) {
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
 * 8 part + word. `times`: the product of lane `lane` in a segment that starts `byte` bytes behind `from`. */

/* Blocks of a scale and of whole words, which thus lie at odd multiples of two bytes or the scale does. */
template <uint WORDS> static inline float scale_and_words(threadgroup const uint *from, uint byte, thread uint *words) {
  uint shift = byte % 4 * 8, first = from[byte / 4];
  words_at<WORDS>(from + byte / 4, 16 + shift, words);
  return half_of(ushort(first >> shift & 0xffffu));
}

struct bytes_q4_0 {
  enum { BLOCK = 32, BYTES = 18 };
  static uint slot(uint word) { return word; }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const operands &x) {
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

struct bytes_q8_0 {
  enum { BLOCK = 32, BYTES = 34 };
  static uint slot(uint word) { return word; }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const operands &x) {
    uint words[8];
    float scale = scale_and_words<8>(from, byte + lane * 34, words);
    return scale * (x.scale[0] * float(products<8>(words, x, 0)));
  }
};

struct bytes_q4_k {
  enum { BLOCK = 256, BYTES = 144 };
  static uint slot(uint word) {
    uint within = word % 64, pair = within / 16, far = within % 16 / 8, rest = within % 8;
    return (word / 64 * 8 + pair * 2 + rest / 4) * 8 + far * 4 + rest % 4;
  }
  static float times(threadgroup const uint *from, uint, uint lane, thread const operands &x) {
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

struct bytes_q6_k {
  enum { BLOCK = 256, BYTES = 210 };
  static uint slot(uint word) {
    uint within = word % 64, side = within / 32, far = within % 32 / 16, rest = within % 16;
    return (word / 64 * 8 + side * 4 + rest / 4) * 8 + far * 4 + rest % 4;
  }
  static float times(threadgroup const uint *from, uint byte, uint lane, thread const operands &x) {
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

/* Rounds four neighbors of a row, `four` their number, of which 8 lanes have a block of 32. */
template <typename B> static inline void round_four(thread const rounded &to, uint four, float4 x, bool exists) {
  float4 size = fabs(x);
  float largest = max(max(size.x, size.y), max(size.z, size.w));
#pragma unroll
  for (uint bit = 4; bit > 0; bit /= 2) largest = max(largest, simd_shuffle_xor(largest, ushort(bit)));
  float scale = largest / 16256.0f, inverse = largest > 0 ? 16256.0f / largest : 0.0f;
  uint upper = 0, lower = 0;
  int sum = 0;
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    int whole = int(rint(x[i] * inverse)), high = (whole + 64) >> 7, low = whole - 128 * high;
    upper |= uint(high & 255) << 8 * i;
    lower |= uint(low & 255) << 8 * i;
    sum += whole;
  }
  sum += simd_shuffle_xor(sum, ushort(1));
  sum += simd_shuffle_xor(sum, ushort(2));
  if (!exists) return;
  uint slot = B::slot(four), part = slot / 8, far = slot % 8 / 4, word = slot % 4;
  ((threadgroup uint *)(to.upper[far] + part))[word] = upper;
  ((threadgroup uint *)(to.lower[far] + part))[word] = lower;
  if (word == 0) {
    threadgroup uint *about = (threadgroup uint *)(to.about + part);
    about[far] = as_type<uint>(scale);
    about[2 + far] = uint(sum);
  }
}

/* Where the tiles of a threadgroup are in b. Of products that are gated a tile of the gate and the same one of what it
 * gates alternate. */
struct tiles {
  uint group, groups, n, gated;
  uint count() const {
    uint units = (n + ROWS - 1) / ROWS, mine = group < units ? (units - group + groups - 1) / groups : 0;
    return gated ? 2 * mine : mine;
  }
  uint row(uint i) const {
    return gated ? (i & 1) * n + (group + groups * (i / 2)) * ROWS : (group + groups * i) * ROWS;
  }
};

template <typename B, uint SIMDGROUPS, uint STAGES>
[[kernel, max_total_threads_per_threadgroup(32 * MATVEC_BYTES_SIMDGROUPS)]] void
matvec_bytes(device const float4 *a [[buffer(MATVEC_BYTES_A)]], device const uchar *b [[buffer(MATVEC_BYTES_B)]],
             device const float4 *norm [[buffer(MATVEC_BYTES_NORM)]],
             device float4 *normed [[buffer(MATVEC_BYTES_NORMED)]],
             device const float *addend [[buffer(MATVEC_BYTES_ADDEND)]],
             device float *product [[buffer(MATVEC_BYTES_PRODUCT)]], device float *out [[buffer(MATVEC_BYTES_OUT)]],
             constant matvec_bytes_args &args [[buffer(MATVEC_BYTES_ARGS)]],
             threadgroup uchar *memory [[threadgroup(0)]], uint group [[threadgroup_position_in_grid]],
             uint groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
             uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint THREADS = SIMDGROUPS * 32;
  constexpr uint SEGMENT = MATVEC_BYTES_SEGMENT / B::BLOCK * B::BYTES; /* bytes of a row */
  constexpr uint VECTORS = (SEGMENT + 15) / 16;                       /* of 16 bytes that it lies in */
  constexpr uint COPIES = (ROWS * VECTORS + 31) / 32, SLOT = ROWS * VECTORS;
  /* A segment starts at a multiple of 16 bytes or 8 behind it, and then also ends there. */
  static_assert(SEGMENT % 8 == 0 && (SEGMENT % 16 == 0 || VECTORS * 16 == SEGMENT + 8), "whole vectors");
  allow_successor();

  uint k = args.k, parts_of_row = k / 32, row_bytes = k / B::BLOCK * B::BYTES;
  uint segments = (k + MATVEC_BYTES_SEGMENT - 1) / MATVEC_BYTES_SEGMENT;
  ulong stride = args.b_row_stride / B::BLOCK * B::BYTES;
  threadgroup uint4 *ring = (threadgroup uint4 *)memory + simdgroup * STAGES * SLOT;
  rounded x;
  x.upper[0] = (threadgroup uint4 *)memory + SIMDGROUPS * STAGES * SLOT;
  x.upper[1] = x.upper[0] + parts_of_row;
  x.lower[0] = x.upper[1] + parts_of_row;
  x.lower[1] = x.lower[0] + parts_of_row;
  x.about = x.lower[1] + parts_of_row;
  threadgroup float *parts = (threadgroup float *)(x.about + parts_of_row); /* [TILES][SIMDGROUPS][ROWS] */
  threadgroup float *squares = parts + TILES * SIMDGROUPS * ROWS;

  /* What each lane copies of every segment. */
  uint copy_row[COPIES], copy_column[COPIES];
#pragma unroll
  for (uint i = 0; i < COPIES; ++i) {
    uint vector = lane + 32 * i;
    copy_row[i] = vector / VECTORS;
    copy_column[i] = vector % VECTORS * 16;
  }
  tiles mine;
  mine.group = group;
  mine.groups = groups;
  mine.n = args.n;
  mine.gated = args.gated;
  uint count = mine.count(), last_row = (args.gated ? 2 * args.n : args.n) - 1;

  /* Segment `simdgroup`, and then each SIMDGROUPS-th, of this threadgroup's is this SIMD-group's. */
  uint step_tiles = SIMDGROUPS / segments, step_segments = SIMDGROUPS % segments;
  uint ahead_tile = simdgroup / segments, ahead_segment = simdgroup % segments;
  uint ahead_slot = 0;
#define COPY_NEXT()                                                                                          \
  if (ahead_tile < count) {                                                                                  \
    uint start = ahead_segment * SEGMENT / 16 * 16, row = mine.row(ahead_tile);                              \
    _Pragma("unroll") for (uint i = 0; i < COPIES; ++i) {                                                    \
      uint place = start + copy_column[i];                                                                   \
      if (lane + 32 * i < ROWS * VECTORS && place < row_bytes)                                               \
        async_copy(ring + ahead_slot * SLOT + lane + 32 * i,                                                 \
                   (device const uint4 *)(b + min(row + copy_row[i], last_row) * stride + place)); \
    }                                                                                                        \
    ahead_segment += step_segments;                                                                          \
    ahead_tile += step_tiles;                                                                                \
    if (ahead_segment >= segments) ahead_segment -= segments, ++ahead_tile;                                  \
  }                                                                                                          \
  async_copy_close();                                                                                        \
  ahead_slot = ahead_slot + 1 == STAGES ? 0 : ahead_slot + 1;

#pragma unroll 1
  for (uint i = 0; i < STAGES; ++i) {
    COPY_NEXT()
  }
  wait_for_predecessor();

  float square = 0;
  uint fours = k / 4;
#pragma unroll 1
  for (uint first = 0; first < fours; first += 4 * THREADS) {
    float4 value[4];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint four = first + i * THREADS + thread_index;
      value[i] = four < fours ? a[four] : float4(0);
      if (args.has_norm) {
        square += dot(value[i], value[i]);
        value[i] *= four < fours ? norm[four] : float4(0);
      }
    }
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint four = first + i * THREADS + thread_index;
      if (first + i * THREADS + simdgroup * 32 < fours) round_four<B>(x, four, value[i], four < fours);
    }
  }
  if (args.has_norm) {
    square = simd_sum(square);
    if (lane == 0) squares[simdgroup] = square;
  }
  for (uint i = thread_index; i < TILES * SIMDGROUPS * ROWS; i += THREADS) parts[i] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  /* A row's norm is a factor: of the products, for roundings do not depend on it. */
  float factor = 1;
  if (args.has_norm) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += squares[i];
    factor = precise::rsqrt(total / float(k) + args.eps);
    if (group == 0)
      for (uint four = thread_index; four < fours; four += THREADS) normed[four] = a[four] * factor * norm[four];
  }

  uint tile = simdgroup / segments, segment = simdgroup % segments, slot = 0;
  float sums[ROWS];
#pragma unroll
  for (uint r = 0; r < ROWS; ++r) sums[r] = 0;
#pragma unroll 1
  for (uint from = 0; from < count; from += TILES) {
    uint to = min(count, from + TILES);
#pragma unroll 1
    while (tile < to) {
      async_copy_wait<STAGES - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      uint part = segment * 32 + lane;
      if (part < parts_of_row) {
        uint4 u = x.upper[0][part], v = x.upper[1][part], s = x.lower[0][part], t = x.lower[1][part];
        uint4 about = x.about[part];
        operands values = {{u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w},
                           {s.x, s.y, s.z, s.w, t.x, t.y, t.z, t.w},
                           {as_type<float>(about.x), as_type<float>(about.y)},
                           {int(about.z), int(about.w)}};
        threadgroup const uint4 *at = ring + slot * SLOT;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r)
          sums[r] += B::times((threadgroup const uint *)(at + r * VECTORS), segment * SEGMENT % 16, lane, values);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      COPY_NEXT()
      slot = slot + 1 == STAGES ? 0 : slot + 1;
      uint of = tile;
      segment += step_segments;
      tile += step_tiles;
      if (segment >= segments) segment -= segments, ++tile;
      if (tile != of) {
        /* Each eight lanes sum up one of four. */
        bool far = (lane & 16) != 0, odd = (lane & 8) != 0;
        float p = (far ? sums[2] : sums[0]) + simd_shuffle_xor(far ? sums[0] : sums[2], ushort(16));
        float q = (far ? sums[3] : sums[1]) + simd_shuffle_xor(far ? sums[1] : sums[3], ushort(16));
        float sum = (odd ? q : p) + simd_shuffle_xor(odd ? p : q, ushort(8));
#pragma unroll
        for (uint bit = 4; bit > 0; bit /= 2) sum += simd_shuffle_xor(sum, ushort(bit));
        if (lane % 8 == 0) parts[(of % TILES * SIMDGROUPS + simdgroup) * ROWS + lane / 8] = sum;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) sums[r] = 0;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint outputs = (to - from) * ROWS;
    for (uint i = thread_index; i < (args.gated ? outputs / 2 : outputs); i += THREADS) {
      uint of = args.gated ? i / ROWS * 2 : i / ROWS, r = i % ROWS, row = mine.row(from + of) + r;
      float sum = 0, other = 0;
#pragma unroll
      for (uint s = 0; s < SIMDGROUPS; ++s) {
        sum += parts[(of * SIMDGROUPS + s) * ROWS + r];
        if (args.gated) other += parts[((of + 1) * SIMDGROUPS + s) * ROWS + r];
      }
      if (row >= args.n) continue;
      sum *= factor;
      other *= factor;
      if (args.keeps_product) {
        product[row] = sum;
        if (args.gated) product[args.n + row] = other;
      }
      if (args.gated) sum = precise::divide(sum, 1.0f + precise::exp(-sum)) * other;
      out[row] = args.has_addend ? sum + addend[row] : sum;
    }
    if (to == count) break;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < TILES * SIMDGROUPS * ROWS; i += THREADS) parts[i] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

#define STAGES_OF(B) MATVEC_BYTES_STAGES(MATVEC_BYTES_SEGMENT / B::BLOCK * B::BYTES)
#define BYTES(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_bytes<__VA_ARGS__>) matvec_bytes<__VA_ARGS__>;

BYTES("matvec_bytes_q4_0_f32", bytes_q4_0, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q4_0))
BYTES("matvec_bytes_q8_0_f32", bytes_q8_0, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q8_0))
BYTES("matvec_bytes_q4_k_f32", bytes_q4_k, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q4_k))
BYTES("matvec_bytes_q6_k_f32", bytes_q6_k, MATVEC_BYTES_SIMDGROUPS, STAGES_OF(bytes_q6_k))
BYTES("matvec_bytes_short_q4_0_f32", bytes_q4_0, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q8_0_f32", bytes_q8_0, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q4_k_f32", bytes_q4_k, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
BYTES("matvec_bytes_short_q6_k_f32", bytes_q6_k, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
