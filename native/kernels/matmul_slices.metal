/* matmul_slices_<B>_f32 and matmul_slices_short_<B>_f32: c = a b for few rows of a, by matrix units. Contract in
 * args.h; besides, a and b lie at multiples of 16 bytes, and so do rows of both; k is a multiple of 32, n is at least
 * 16.
 *
 * Geometry: threadgroups of 32 SIMDGROUPS threads, each for SLICE weights of every row of b that is its own and for 16
 * rows of a: (any number that share out the rows of b, k / SLICE, m / 16), the latter two rounded up. Threadgroup
 * memory: MATMUL_SLICES_MEMORY of args.h.
 *
 * A threadgroup copies its slice of the activations once, as sums of two halves of 11 bits each, times a power of two
 * for each row. A SIMD-group multiplies 16 rows of b at a time, whose weights become halves without their scales,
 * which are whole numbers: nothing is rounded before the sums over a scale's weights, which are floats. It has a ring
 * of chunks of its rows, which it fills ahead, and already before the kernel's predecessor has ended. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "async_copy.h"
#include "matrix_quads.h"
#include "power.h"

/* Two bytes or the nibbles of two bytes, `mask` of each, as halves of 1024 more, less `origin`. */
static inline half2 halves_at(uint two, uint mask, uint flip, half origin) {
  return as_type<half2>((((two | two << 8) & mask) ^ flip) | 0x64006400u) - half2(origin);
}
static inline uint two_at(threadgroup const uchar *from) { return *(threadgroup const ushort *)from; }
static inline float half_at(threadgroup const uchar *from) { return half_of(*(threadgroup const ushort *)from); }

/* What a lane multiplies of 32 weights of a row: four times two neighbors, eight from each other, and for each half of
 * them the scale. */
struct some_weights {
  half2 pairs[4];
  float scales[2], offset;
};

/* Types of weights. A chunk has CHUNK of them in BYTES. `read`: the pairs from `column`, 0, 2, 4 or 6, on of 32 weights
 * of a chunk. */
struct slices_q4_0 {
  enum { CHUNK = 256, BYTES = 144, PADDING = 0, SCALES = 1, HAS_OFFSET = 0 };
  static void read(threadgroup const uchar *row, uint block, uint column, thread some_weights &w) {
    row += block * 18;
    uint first = two_at(row + 2 + column), second = two_at(row + 10 + column);
    w.pairs[0] = halves_at(first, 0x000f000fu, 0, half(1032));
    w.pairs[1] = halves_at(second, 0x000f000fu, 0, half(1032));
    w.pairs[2] = halves_at(first >> 4, 0x000f000fu, 0, half(1032));
    w.pairs[3] = halves_at(second >> 4, 0x000f000fu, 0, half(1032));
    w.scales[0] = half_at(row);
  }
};

struct slices_q8_0 {
  enum { CHUNK = 256, BYTES = 272, PADDING = 0, SCALES = 1, HAS_OFFSET = 0 };
  static void read(threadgroup const uchar *row, uint block, uint column, thread some_weights &w) {
    row += block * 34;
#pragma unroll
    for (uint i = 0; i < 4; ++i)
      w.pairs[i] = halves_at(two_at(row + 2 + 8 * i + column), 0x00ff00ffu, 0x00800080u, half(1152));
    w.scales[0] = half_at(row);
  }
};

struct slices_q4_k {
  enum { CHUNK = 256, BYTES = 144, PADDING = 0, SCALES = 1, HAS_OFFSET = 1 };
  static void read(threadgroup const uchar *row, uint block, uint column, thread some_weights &w) {
    threadgroup const uchar *nibbles = row + 16 + block / 2 * 32 + column, *six_bits = row + 4;
    uint shift = block % 2 * 4;
#pragma unroll
    for (uint i = 0; i < 4; ++i) w.pairs[i] = halves_at(two_at(nibbles + 8 * i) >> shift, 0x000f000fu, 0, half(1024));
    /* get_scale_min_k4. */
    uint low = six_bits[block % 4], middle = six_bits[block % 4 + 4], high = six_bits[block % 4 + 8];
    bool far = block >= 4;
    uint factor = far ? (high & 15) | (low >> 6) << 4 : low & 63;
    uint least = far ? high >> 4 | (middle >> 6) << 4 : middle & 63;
    w.scales[0] = half_at(row) * float(factor);
    w.offset = half_at(row + 2) * float(least);
  }
};

struct slices_q6_k {
  enum { CHUNK = 256, BYTES = 210, PADDING = 16, SCALES = 2, HAS_OFFSET = 0 };
  static void read(threadgroup const uchar *row, uint block, uint column, thread some_weights &w) {
    uint side = block / 4, quarter = block % 4, shift = quarter / 2 * 4, high_shift = quarter * 2;
    threadgroup const uchar *lower = row + side * 64 + quarter % 2 * 32 + column;
    threadgroup const uchar *upper = row + 128 + side * 32 + column;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint low = two_at(lower + 8 * i) >> shift & 0x0f0fu, high = two_at(upper + 8 * i) >> high_shift & 0x0303u;
      w.pairs[i] = halves_at(low | high << 4, 0x003f003fu, 0, half(1056));
    }
    float scale = half_at(row + 208);
    threadgroup const char *scales = (threadgroup const char *)row + 192 + block * 2;
    w.scales[0] = scale * float(int(scales[0]));
    w.scales[1] = scale * float(int(scales[1]));
  }
};

struct slices_f16 {
  enum { CHUNK = 128, BYTES = 256, PADDING = 16, SCALES = 1, HAS_OFFSET = 0 };
  static void read(threadgroup const uchar *row, uint block, uint column, thread some_weights &w) {
#pragma unroll
    for (uint i = 0; i < 4; ++i)
      w.pairs[i] = as_type<half2>(*(threadgroup const uint *)(row + (block * 32 + 8 * i + column) * 2));
    w.scales[0] = 1;
  }
};

constant constexpr uint ROWS = MATMUL_SLICES_ROWS;

/* BYTES: those of a chunk of one row in the ring. */
template <typename B, uint BYTES, uint SLICE, uint SIMDGROUPS, uint STAGES>
[[kernel, max_total_threads_per_threadgroup(32 * SIMDGROUPS)]] void
matmul_slices(device const float *a [[buffer(MATMUL_A)]], device const uchar *b [[buffer(MATMUL_B)]],
              device const float *bias [[buffer(MATMUL_BIAS)]], device float *c [[buffer(MATMUL_C)]],
              constant matmul_args &args [[buffer(MATMUL_ARGS)]], threadgroup uchar *memory [[threadgroup(0)]],
              uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
              uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint CHUNK = B::CHUNK, VECTORS = (BYTES - B::PADDING) / 16, STAGE = ROWS * BYTES;
  constexpr uint COPIES = (ROWS * VECTORS + 31) / 32, STRIDE = SLICE + MATMUL_SLICES_PADDING;
  allow_successor();
  uint first_weight = group.y * SLICE, width = min(SLICE, args.k - first_weight), chunks = (width + CHUNK - 1) / CHUNK;
  uint row_bytes = args.k / CHUNK * B::BYTES + args.k % CHUNK * B::BYTES / CHUNK;
  ulong stride = args.b_row_stride / CHUNK * B::BYTES + args.b_row_stride % CHUNK * B::BYTES / CHUNK;
  threadgroup half *high = (threadgroup half *)memory, *low = high + ROWS * STRIDE;
  threadgroup float *inverses = (threadgroup float *)(low + ROWS * STRIDE), *block_sums = inverses + ROWS;
  threadgroup uchar *ring = (threadgroup uchar *)(block_sums + SLICE / 32 * ROWS) + simdgroup * STAGES * STAGE;

  uint copy_to[COPIES], copy_column[COPIES];
  ulong copy_from[COPIES];
#pragma unroll
  for (uint i = 0; i < COPIES; ++i) {
    uint vector = lane + 32 * i, row = vector / VECTORS, column = vector % VECTORS * 16;
    copy_to[i] = row * BYTES + column;
    copy_from[i] = row * stride + column;
    copy_column[i] = vector < ROWS * VECTORS ? column : row_bytes;
  }
  /* The first row of b of the tile after `tile` others of this threadgroup. The last one is as large as the others, and
   * has some of the rows before it again. */
  uint all = (args.n + ROWS - 1) / ROWS, count = group.x < all ? (all - group.x + groups.x - 1) / groups.x : 0;
#define TILE(tile) ((group.x + groups.x * (tile)) * ROWS)
  uint ahead_tile = simdgroup, ahead_chunk = 0, ahead_slot = 0;
#define COPY_NEXT()                                                                                          \
  if (ahead_tile < count) {                                                                                  \
    uint start = (first_weight / CHUNK + ahead_chunk) * B::BYTES / 16 * 16;                                  \
    device const uchar *from = b + min(TILE(ahead_tile), args.n - ROWS) * stride + start;                    \
    _Pragma("unroll") for (uint i = 0; i < COPIES; ++i) {                                                    \
      if (start + copy_column[i] < row_bytes)                                                                \
        async_copy((threadgroup uint4 *)(ring + ahead_slot * STAGE + copy_to[i]),                            \
                   (device const uint4 *)(from + copy_from[i]));                                             \
    }                                                                                                        \
    if (++ahead_chunk == chunks) ahead_chunk = 0, ahead_tile += SIMDGROUPS;                                  \
  }                                                                                                          \
  async_copy_close();                                                                                        \
  ahead_slot = ahead_slot + 1 == STAGES ? 0 : ahead_slot + 1;

  if (args.written) wait_for_predecessor();
#pragma unroll 1
  for (uint i = 0; i < STAGES; ++i) {
    COPY_NEXT()
  }
  wait_for_predecessor();

#pragma unroll 1
  for (uint row = simdgroup; row < ROWS; row += SIMDGROUPS) {
    constexpr uint FOURS = SLICE / 128;
    float4 values[FOURS];
    float bound = 0;
    uint of = group.z * ROWS + row;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) {
      uint x = 4 * (lane + 32 * i);
      values[i] = float4(0);
      if (of < args.m && x < width) values[i] = *(device const float4 *)(a + of * args.a_row_stride + first_weight + x);
      float4 size = fabs(values[i]);
      bound = max(bound, max(max(size.x, size.y), max(size.z, size.w)));
    }
    float power = power_for(simd_max(bound));
    if (lane == 0) inverses[row] = inverse_of_power(power);
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) {
      uint x = 4 * (lane + 32 * i);
      float4 value = values[i] * power;
      // An infinity less itself would be NaN.
      half4 upper = half4(value);
      half4 lower = half4(select(value - float4(upper), float4(0), fabs(value) > float4(65504)));
      *(threadgroup half4 *)(high + row * STRIDE + x) = upper;
      *(threadgroup half4 *)(low + row * STRIDE + x) = lower;
      if (B::HAS_OFFSET) {
        float sum = (value.x + value.y) + (value.z + value.w);
#pragma unroll
        for (uint bit = 1; bit < 8; bit *= 2) sum += simd_shuffle_xor(sum, ushort(bit));
        if (lane % 8 == 0) block_sums[x / 32 * ROWS + row] = sum;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  uint2 place = quad_place(lane);
  uint slot = 0;
#pragma unroll 1
  for (uint tile = simdgroup; tile < count; tile += SIMDGROUPS) {
    float2 sums[4];
#pragma unroll
    for (uint i = 0; i < 4; ++i) sums[i] = float2(0);
#pragma unroll 1
    for (uint chunk = 0; chunk < chunks; ++chunk) {
      async_copy_wait<STAGES - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      threadgroup const uchar *upper_row =
          ring + slot * STAGE + place.x * BYTES + (first_weight / CHUNK + chunk) * B::BYTES % 16;
      uint blocks = min(CHUNK, width - chunk * CHUNK) / 32;
#pragma unroll 1
      for (uint block = 0; block < blocks; ++block) {
        some_weights upper, lower;
        B::read(upper_row, block, place.y, upper);
        B::read(upper_row + 8 * BYTES, block, place.y, lower);
        simdgroup_float8x8 products[4];
        uint x = chunk * CHUNK + block * 32;
#pragma unroll
        for (uint step = 0; step < 2; ++step) {
          if (step == 0 || B::SCALES == 2)
#pragma unroll
            for (uint i = 0; i < 4; ++i) products[i] = make_filled_simdgroup_matrix<float, 8>(0.0f);
          simdgroup_half8x8 left[4], right[4];
          left[0] = quad_halves(upper.pairs[2 * step]);
          left[1] = quad_halves(upper.pairs[2 * step + 1]);
          left[2] = quad_halves(lower.pairs[2 * step]);
          left[3] = quad_halves(lower.pairs[2 * step + 1]);
          quad_load_right(right, low + x + 16 * step, STRIDE);
          quad_multiply_accumulate(products, left, right);
          quad_load_right(right, high + x + 16 * step, STRIDE);
          quad_multiply_accumulate(products, left, right);
          if (step == 1 || B::SCALES == 2) {
            uint scale = B::SCALES == 2 ? step : 0;
#pragma unroll
            for (uint i = 0; i < 4; ++i)
              sums[i] += quad_elements(products[i]) * (i < 2 ? upper : lower).scales[scale];
          }
        }
        if (B::HAS_OFFSET)
#pragma unroll
          for (uint i = 0; i < 4; ++i) {
            threadgroup const float *of = block_sums + x / 32 * ROWS + i % 2 * 8 + place.y;
            sums[i] -= float2(of[0], of[1]) * (i < 2 ? upper : lower).offset;
          }
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      COPY_NEXT()
      slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
    uint wanted = TILE(tile), first = min(wanted, args.n - ROWS);
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      uint of = i / 4 * 8 + place.y + i % 2, column = first + i / 2 % 2 * 8 + place.x, row = group.z * ROWS + of;
      if (row >= args.m || column < wanted) continue;
      float sum = sums[i / 2 % 2 * 2 + i / 4][i % 2] * inverses[of];
      if (args.has_bias) sum += bias[column];
      c[group.y * args.c_batch_stride + row * args.c_row_stride + column] = sum;
    }
  }
#undef COPY_NEXT
#undef TILE
}

/* matmul_slices_sum: c[i][j] = the sum over the slices of parts[slice][i][j] (+ bias[j]).
 *
 * Geometry: a thread for each element: (n, m, 1). */
[[kernel]] void matmul_slices_sum(device const float *parts [[buffer(ACCUMULATE_PRODUCT)]],
                                  device const float *bias [[buffer(ACCUMULATE_BIAS)]],
                                  device float *c [[buffer(ACCUMULATE_C)]],
                                  constant accumulate_args &args [[buffer(ACCUMULATE_ARGS)]],
                                  uint2 position [[thread_position_in_grid]]) {
  if (position.x >= args.n || position.y >= args.m) return;
  ulong plane = ulong(args.m) * args.n, at = ulong(position.y) * args.n + position.x;
  float sum = args.has_bias ? bias[position.x] : 0.0f;
  for (uint slice = 0; slice < args.batch; ++slice) sum += parts[slice * plane + at];
  c[position.y * args.c_row_stride + position.x] = sum;
}

#define SLICES(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_slices<__VA_ARGS__>) matmul_slices<__VA_ARGS__>;
#define SLICES_OF(NAME, B, BYTES)                                                                                \
  SLICES("matmul_slices_" NAME "_f32", B, BYTES, MATMUL_SLICES_WIDTH, MATMUL_SLICES_SIMDGROUPS,                  \
         MATMUL_SLICES_STAGES(BYTES))                                                                            \
  SLICES("matmul_slices_short_" NAME "_f32", B, BYTES, MATMUL_SLICES_SHORT_WIDTH, MATMUL_SLICES_FEW_SIMDGROUPS, \
         MATMUL_SLICES_FEW_STAGES)

SLICES_OF("q4_0", slices_q4_0, MATMUL_SLICES_Q4_0)
SLICES_OF("q8_0", slices_q8_0, MATMUL_SLICES_Q8_0)
SLICES_OF("q4_k", slices_q4_k, MATMUL_SLICES_Q4_K)
SLICES_OF("q6_k", slices_q6_k, MATMUL_SLICES_Q6_K)
SLICES_OF("f16", slices_f16, MATMUL_SLICES_F16)
