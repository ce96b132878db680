/* matmul_panels_<B>_f32: products of 2 to 16 rows of activations that are bytes with weights in blocks, by matrix
 * units, and what stands behind them in a model. matmul_panels_bytes makes these bytes, and matmul_panels_sum adds up
 * slices. Contracts in args.h; besides, b lies at a multiple of 16 bytes, and so do its rows, whose k weights are
 * multiples of 16 bytes, too. k is a multiple of 256.
 *
 * Geometry: threadgroups of 32 MATMUL_PANELS_SIMDGROUPS threads and 32 more, each for SLICE weights of every row of b
 * that is its own: (any number that share out the rows of b, k / SLICE rounded up, 1). Threadgroup memory:
 * MATMUL_PANELS_MEMORY of args.h. matmul_panels_bytes: one of 128 threads for each 1,024 activations of each of 16
 * rows: (k / 1024 rounded up, 16, 1). matmul_panels_sum: a thread for each element, dispatchThreads (n, m, 1).
 *
 * A threadgroup copies its slice of the activations. Then it takes panels of ROWS rows of b, cut into segments, of
 * which each SIMD-group multiplies a part with all rows of a. The last SIMD-group copies segments ahead of what the
 * others multiply (row_copies.h), and begins before the kernel's predecessor has ended, unless a kernel may write
 * them. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"
#include "integer_dot.h"
#include "async_copy.h"
#include "row_copies.h"
#include "byte_matrix.h"
#include "byte_rows.h"
#include "packed_words.h"
#include "row_tiles.h"

constant constexpr uint ROWS = MATMUL_PANELS_ROWS, SLICE = MATMUL_PANELS_SLICE;
constant constexpr uint SIMDGROUPS = MATMUL_PANELS_SIMDGROUPS, AT_ONCE = MATMUL_PANELS_AT_ONCE;
constant constexpr uint THREADS = 32 * SIMDGROUPS;
/* Of a block of 32 activations: the bytes of all rows, then of each the scale, and that times their sum. */
constant constexpr uint WORDS_BYTES = 32 * ROWS, SCALES_BYTES = 8 * ROWS;

/* Of 32 neighboring weights of a row what lane 4 g + t multiplies, the bytes from 4 t and from 16 + 4 t on. The first
 * 16 and the others have a scale each. least: subtracted from each weight. */
struct some_weights {
  uint first, second;
  float scales[2], least;
};

/* Each byte less 32. */
static inline uint less_32(uint bytes) { return (bytes + 0x60606060u) ^ 0x80808080u; }

/* Types of weights. A panel's segment has SEGMENT of them. What is read is ZERO more than a weight. `read`: of the 32
 * weights of block `block` behind `row`, where a SIMD-group's part begins, what a lane multiplies; shift: 16 where the
 * part begins within a word. */
struct panels_q4_0 {
  enum { BLOCK = 32, BYTES = 18, SEGMENT = 4096, SCALES = 1, HAS_LEAST = 0, ZERO = 8 };
  static void read(threadgroup const uint *row, uint, uint block, uint t, thread some_weights &w) {
    row += block / 2 * 9; /* two blocks are 9 words */
    uint word = block % 2 ? row[t + 5] : straddling(row[t], row[t + 1]);
    w.first = word & 0x0f0f0f0fu;
    w.second = word >> 4 & 0x0f0f0f0fu;
    w.scales[0] = block % 2 ? high_half(row[4]) : low_half(row[0]);
  }
};

struct panels_q8_0 {
  enum { BLOCK = 32, BYTES = 34, SEGMENT = 2048, SCALES = 1, HAS_LEAST = 0, ZERO = 0 };
  static void read(threadgroup const uint *row, uint, uint block, uint t, thread some_weights &w) {
    row += block / 2 * 17; /* two blocks are 17 words */
    threadgroup const uint *word = row + t;
    w.first = block % 2 ? word[9] : straddling(word[0], word[1]);
    w.second = block % 2 ? word[13] : straddling(word[4], word[5]);
    w.scales[0] = block % 2 ? high_half(row[8]) : low_half(row[0]);
  }
};

struct panels_q4_k {
  enum { BLOCK = 256, BYTES = 144, SEGMENT = 4096, SCALES = 1, HAS_LEAST = 1, ZERO = 0 };
  static void read(threadgroup const uint *row, uint, uint block, uint t, thread some_weights &w) {
    uint shift = block % 2 * 4;
    w.first = row[4 + block / 2 * 8 + t] >> shift & 0x0f0f0f0fu;
    w.second = row[8 + block / 2 * 8 + t] >> shift & 0x0f0f0f0fu;
    /* get_scale_min_k4 of ggml-quants.c. */
    uint place = block % 4 * 8, s0 = row[1] >> place, s1 = row[2] >> place, s2 = row[3] >> place;
    uint factor = block < 4 ? s0 & 63 : (s2 & 15) | (s0 >> 2 & 48);
    uint least = block < 4 ? s1 & 63 : (s2 >> 4 & 15) | (s1 >> 2 & 48);
    w.scales[0] = low_half(row[0]) * float(factor);
    w.least = high_half(row[0]) * float(least);
  }
};

/* Each 16 weights have a scale. */
struct panels_q6_k {
  enum { BLOCK = 256, BYTES = 210, SEGMENT = 4096, SCALES = 2, HAS_LEAST = 0, ZERO = 0 };
  static uint at(threadgroup const uint *from, uint shift) {
    return uint((ulong(from[1]) << 32 | from[0]) >> shift);
  }
  static void read(threadgroup const uint *row, uint shift, uint block, uint t, thread some_weights &w) {
    uint side = block / 4, i = block % 4;
    threadgroup const uint *low = row + side * 16 + i % 2 * 8 + t, *high = row + 32 + side * 8 + t;
    uint bits[2] = {at(high, shift), at(high + 4, shift)};
    w.first = less_32((at(low, shift) >> i / 2 * 4 & 0x0f0f0f0fu) | (bits[0] >> 2 * i & 0x03030303u) << 4);
    w.second = less_32((at(low + 4, shift) >> i / 2 * 4 & 0x0f0f0f0fu) | (bits[1] >> 2 * i & 0x03030303u) << 4);
    uint both = at(row + 48 + block / 2, shift) >> block % 2 * 16;
    float scale = low_half(at(row + 52, shift));
    w.scales[0] = scale * float(as_type<char4>(both).x);
    w.scales[1] = scale * float(as_type<char4>(both).y);
  }
};

/* sums[4 h + i] += the products of a block of both rows with columns 8 h + 2 t and 8 h + 2 t + 1, of both h or of 0.
 * words, scales: the block's activations. */
template <typename B, bool MANY>
static inline void add_block(thread float *sums, thread const some_weights &upper, thread const some_weights &lower,
                             threadgroup const uchar *words, threadgroup const uchar *scales, uint lane) {
#pragma unroll
  for (uint h = 0; h < (MANY ? 2 : 1); ++h) {
    uint2 x = ((threadgroup const uint2 *)words)[32 * h + lane];
    float4 s = ((threadgroup const float4 *)scales)[4 * h + lane % 4];
    float even = B::ZERO ? float(B::ZERO) * s.y : 0.0f, odd = B::ZERO ? float(B::ZERO) * s.w : 0.0f;
#pragma unroll
    for (uint part = 0; part < B::SCALES; ++part) {
      int products[4];
#pragma unroll
      for (uint i = 0; i < 4; ++i) products[i] = FLOAT_BITS;
      bool first = B::SCALES == 1 || part == 0, second = B::SCALES == 1 || part == 1;
      multiply_bytes(products, first ? upper.first : 0, first ? lower.first : 0, second ? upper.second : 0,
                     second ? lower.second : 0, x.x, x.y, lane);
      float p = upper.scales[part], q = lower.scales[part];
      sums[4 * h] += p * (sum_of(products[0]) * s.x - even);
      sums[4 * h + 1] += p * (sum_of(products[1]) * s.z - odd);
      sums[4 * h + 2] += q * (sum_of(products[2]) * s.x - even);
      sums[4 * h + 3] += q * (sum_of(products[3]) * s.z - odd);
    }
    if (B::HAS_LEAST) {
      sums[4 * h] -= upper.least * s.y;
      sums[4 * h + 1] -= upper.least * s.w;
      sums[4 * h + 2] -= lower.least * s.y;
      sums[4 * h + 3] -= lower.least * s.w;
    }
  }
}

/* The products of a SIMD-group's part of a segment, which has BLOCKS blocks and begins at `upper` in row lane / 4, and
 * at `lower` in row lane / 4 + 8. */
template <typename B, uint BLOCKS, bool MANY>
static inline void add_part(thread float *sums, threadgroup const uint *upper, threadgroup const uint *lower,
                            uint shift, threadgroup const uchar *words, threadgroup const uchar *scales, uint lane) {
#pragma unroll
  for (uint block = 0; block < BLOCKS; ++block) {
    some_weights above, below;
    B::read(upper, shift, block, lane % 4, above);
    B::read(lower, shift, block, lane % 4, below);
    add_block<B, MANY>(sums, above, below, words + block * WORDS_BYTES, scales + block * SCALES_BYTES, lane);
  }
}

/* An element of a product to what stands behind it. */
static inline void write_element(constant matmul_panels_args &args, device const float *bias,
                                 device const float *addend, device float *c, device float *out, uint row, uint column,
                                 float sum) {
  if (args.has_bias) sum += bias[row];
  c[column * args.c_row_stride + row] = sum;
  uint place = column * args.n + row;
  if (args.has_addend) out[place] = sum + addend[place];
}

template <typename B>
[[kernel, max_total_threads_per_threadgroup(THREADS + 32)]] void
matmul_panels(device const uchar *a [[buffer(MATMUL_PANELS_A)]], device const uchar *b [[buffer(MATMUL_PANELS_B)]],
              device const float *bias [[buffer(MATMUL_PANELS_BIAS)]],
              device const float *addend [[buffer(MATMUL_PANELS_ADDEND)]],
              device float *c [[buffer(MATMUL_PANELS_C)]], device float *out [[buffer(MATMUL_PANELS_OUT)]],
              constant matmul_panels_args &args [[buffer(MATMUL_PANELS_ARGS)]],
              threadgroup uchar *memory [[threadgroup(0)]], uint3 group [[threadgroup_position_in_grid]],
              uint3 groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint SEGMENT = B::SEGMENT, UNIT = SEGMENT / SIMDGROUPS, BLOCKS = UNIT / 32;
  constexpr uint SEGMENT_BYTES = SEGMENT / B::BLOCK * B::BYTES, UNIT_BYTES = SEGMENT_BYTES / SIMDGROUPS;
  constexpr uint PITCH = MATVEC_PANELS_PITCH(SEGMENT_BYTES), STAGES = MATMUL_PANELS_RING / (ROWS * PITCH);
  static_assert(STAGES > 0 && STAGES <= MATMUL_PANELS_MOST_STAGES, "there is room");
  static_assert(SLICE % SEGMENT == 0 && UNIT_BYTES % 2 == 0, "whole segments, and halves of words");
  allow_successor();

  uint first_weight = group.y * SLICE, width = min(SLICE, args.k - first_weight);
  uint segments = (width + SEGMENT - 1) / SEGMENT, width_bytes = width / B::BLOCK * B::BYTES;
  ulong stride = args.b_row_stride / B::BLOCK * B::BYTES;
  device const uchar *weights = b + ulong(first_weight / B::BLOCK) * B::BYTES;
  threadgroup uchar *words = memory + STAGES * ROWS * PITCH, *scales = words + width / 32 * WORDS_BYTES;
  threadgroup float *parts = (threadgroup float *)(words + SLICE / 32 * (WORDS_BYTES + SCALES_BYTES));
  row_stages<ROWS, PITCH, STAGES, SIMDGROUPS> ring;
  ring.place(memory, (threadgroup ulong *)(parts + AT_ONCE * SIMDGROUPS * ROWS * ROWS));
  tiles<ROWS> mine;
  mine.place(group.x, groups.x, args.n, args.planes == 2);
  uint count = mine.count, last_row = args.planes * args.n - 1;

  bool copies = simdgroup == SIMDGROUPS, many = args.m > 8;
  uint ahead_panel = 0, ahead_segment = 0;
#define COPY_NEXT()                                                                                       \
  if (ahead_panel < count) {                                                                              \
    uint start = ahead_segment * SEGMENT_BYTES, row = mine.row(ahead_panel);                              \
    ring.fill(weights + row * stride + start, stride, last_row - row, min(SEGMENT_BYTES, width_bytes - start), \
              lane);                                                                                      \
    if (++ahead_segment == segments) {                                                                    \
      ahead_segment = 0;                                                                                  \
      ++ahead_panel;                                                                                      \
    }                                                                                                     \
  }
  if (copies) {
    ring.start();
    if (args.written) wait_for_predecessor();
#pragma unroll 1
    for (uint i = 0; i < STAGES; ++i) {
      COPY_NEXT()
    }
  }
  wait_for_predecessor();
  device const uint4 *from = (device const uint4 *)(a + first_weight / 32 * (WORDS_BYTES + SCALES_BYTES));
  for (uint i = thread_index; i < width / 32 * ((WORDS_BYTES + SCALES_BYTES) / 16); i += THREADS + 32)
    async_copy((threadgroup uint4 *)words + i, from + i);
  async_copy_close();
  async_copy_wait<0>();
  threadgroup_barrier(mem_flags::mem_threadgroup);

#pragma unroll 1
  for (uint first = 0; first < count; first += AT_ONCE) {
    uint last = min(count, first + AT_ONCE);
#pragma unroll 1
    for (uint panel = first; panel < last; ++panel) {
      float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
      for (uint segment = 0; segment < segments; ++segment) {
        ring.await(copies);
        uint start = segment * SEGMENT + simdgroup * UNIT;
        if (!copies && start < width) {
          uint shift = simdgroup * UNIT_BYTES % 4 * 8;
          threadgroup const uchar *part = ring.stage() + lane / 4 * PITCH + simdgroup * UNIT_BYTES / 4 * 4;
          threadgroup const uint *upper = (threadgroup const uint *)part;
          threadgroup const uint *lower = (threadgroup const uint *)(part + 8 * PITCH);
          threadgroup const uchar *x = words + start / 32 * WORDS_BYTES, *s = scales + start / 32 * SCALES_BYTES;
          if (many) add_part<B, BLOCKS, true>(sums, upper, lower, shift, x, s, lane);
          else add_part<B, BLOCKS, false>(sums, upper, lower, shift, x, s, lane);
        }
        ring.release(copies, ahead_panel < count);
        if (copies) {
          COPY_NEXT()
        }
      }
      if (!copies) {
        threadgroup float *part = parts + (panel % AT_ONCE * SIMDGROUPS + simdgroup) * ROWS * ROWS + lane;
#pragma unroll
        for (uint i = 0; i < 8; ++i) part[32 * i] = sums[i];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    /* Element i of a panel is one of sums[i / 32], of lane i % 32. */
    uint elements = ROWS * ROWS, all = mine.gated ? elements : (last - first) * elements;
    for (uint i = thread_index; i < all; i += THREADS + 32) {
      uint panel = i / elements, place = i % 32, of = i / 32 % 8;
      uint row = mine.row(first + panel) + of / 2 % 2 * 8 + place / 4, column = of / 4 * 8 + place % 4 * 2 + of % 2;
      if (row >= args.n || column >= args.m) continue;
      threadgroup const float *part = parts + panel * SIMDGROUPS * elements + i % elements;
      float sum = 0, other = 0;
#pragma unroll
      for (uint s = 0; s < SIMDGROUPS; ++s) {
        sum += part[s * elements];
        if (mine.gated) other += part[(SIMDGROUPS + s) * elements];
      }
      if (args.slices > 1) {
        c[(group.y * args.m + column) * args.n + row] = sum;
        continue;
      }
      write_element(args, bias, addend, c, out, row, column, sum);
      if (!mine.gated) continue;
      c[(args.m + column) * args.c_row_stride + row] = other;
      if (args.gated) out[column * args.n + row] = precise::divide(sum, 1.0f + precise::exp(-sum)) * other;
    }
    if (last == count) break;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#undef COPY_NEXT
}

[[kernel]] void matmul_panels_sum(device const float *parts [[buffer(MATMUL_PANELS_A)]],
                                  device const float *bias [[buffer(MATMUL_PANELS_BIAS)]],
                                  device const float *addend [[buffer(MATMUL_PANELS_ADDEND)]],
                                  device float *c [[buffer(MATMUL_PANELS_C)]],
                                  device float *out [[buffer(MATMUL_PANELS_OUT)]],
                                  constant matmul_panels_args &args [[buffer(MATMUL_PANELS_ARGS)]],
                                  uint2 position [[thread_position_in_grid]]) {
  if (position.x >= args.n || position.y >= args.m) return;
  float sum = 0;
  for (uint slice = 0; slice < args.slices; ++slice)
    sum += parts[ulong(slice * args.m + position.y) * args.n + position.x];
  write_element(args, bias, addend, c, out, position.x, position.y, sum);
}

/* Of rows beyond m come zeros. */
[[kernel, max_total_threads_per_threadgroup(128)]] void
matmul_panels_bytes(device const float *a [[buffer(MATMUL_PANELS_BYTES_A)]],
                    device uchar *out [[buffer(MATMUL_PANELS_BYTES_OUT)]],
                    constant matmul_panels_bytes_args &args [[buffer(MATMUL_PANELS_BYTES_ARGS)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint thread_index [[thread_index_in_threadgroup]]) {
  allow_successor();
  wait_for_predecessor();
  uint row = group.y, eight = group.x * 128 + thread_index;
  if (group.x * 128 + thread_index / 32 * 32 >= args.k / 8) return; /* 256 activations of a SIMD-group, all or none */
  float4 low = float4(0), high = float4(0);
  if (row < args.m) {
    device const float4 *from = (device const float4 *)(a + row * args.a_row_stride) + 2 * eight;
    low = from[0];
    high = from[1];
  }
  eight_bytes bytes(low, high);
  uint slice = eight / (SLICE / 8), block = eight / 4 % (SLICE / 32), quarter = eight % 4;
  uint blocks = min(SLICE, args.k - slice * SLICE) / 32;
  device uchar *from = out + slice * (SLICE / 32) * (WORDS_BYTES + SCALES_BYTES);
  /* Words 0 4 1 5 2 6 3 7 of a row, so that a lane's two are neighbors. */
  device uint *words = (device uint *)(from + block * WORDS_BYTES) + row * 8 + quarter % 2 * 4 + quarter / 2;
  words[0] = bytes.low;
  words[2] = bytes.high;
  device float2 *scales = (device float2 *)(from + blocks * WORDS_BYTES + block * SCALES_BYTES) + row;
  if (quarter == 0) *scales = float2(bytes.scale, bytes.scale * float(bytes.block_sum));
}

#define PANELS(NAME, B) template [[host_name(NAME)]] [[kernel]] decltype(matmul_panels<B>) matmul_panels<B>;

PANELS("matmul_panels_q4_0_f32", panels_q4_0)
PANELS("matmul_panels_q8_0_f32", panels_q8_0)
PANELS("matmul_panels_q4_k_f32", panels_q4_k)
PANELS("matmul_panels_q6_k_f32", panels_q6_k)
