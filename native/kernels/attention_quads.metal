/* attention_quads_<D>_<C>: attention_tiled for heads of at most D elements, on devices of many cores. Contract in
 * args.h.
 *
 * Geometry: threadgroups of 128 threads, each for one head of 64 queries: (heads, tokens / 64, 1), rounded up. The last
 * queries, which see the most keys, come first.
 *
 * The design is attention_tiled's, with matrices of 16 x 16: each of four SIMD-groups has sixteen queries. Where the
 * device has instructions for them, scores become weights in the registers in which they are multiplied with values.
 * Keys and values that are halves are multiplied as such, with queries and weights in two halves each. Of a query these
 * have 22 bits, and of a weight what is above 2^-25. They have memory apart from each other, so that values are copied
 * while keys are multiplied, and the next keys while values are. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "caches.h"
#include "aligned_caches.h"
#include "power.h"
#include "matrix_quads.h"
#include "async_copy.h"

constant constexpr uint THREADS = 128;
constant constexpr uint QUERIES = 64;

/* Matrices of floats. */
struct float_products {
  typedef float value;
  typedef float4 four;
  enum { KEY_PADDING = 8, VALUE_PADDING = 4, ARE_APART = 0 };
  static float4 stored(float4 values) { return values; }
  struct left {
    simdgroup_float8x8 parts[4];
  };
  static void set(thread left &a, uint i, float2 pair) { a.parts[i] = quad_matrix(pair); }
  static void columns(thread simdgroup_float8x8 *sums, thread const left &a, threadgroup const float *b, uint stride) {
    simdgroup_float8x8 right[4];
    quad_load_right(right, b, stride);
    quad_multiply_accumulate(sums, a.parts, right);
  }
  static void rows(thread simdgroup_float8x8 *sums, thread const left &a, threadgroup const float *b, uint stride) {
    simdgroup_float8x8 right[4];
    quad_load_right_rows(right, b, stride);
    quad_multiply_accumulate(sums, a.parts, right);
  }
};

/* Matrices of halves, of which the left ones are sums of two. */
struct half_products {
  typedef half value;
  typedef uint2 four;
  enum { KEY_PADDING = 8, VALUE_PADDING = 8, ARE_APART = 1 };
  static uint2 stored(float4 values) {
    half2 low = half2(half(values.x), half(values.y)), high = half2(half(values.z), half(values.w));
    return uint2(as_type<uint>(low), as_type<uint>(high));
  }
  struct left {
    simdgroup_half8x8 high[4], low[4];
  };
  static void set(thread left &a, uint i, float2 pair) {
    half2 high = half2(half(pair.x), half(pair.y));
    float2 rest = pair - float2(float(high.x), float(high.y));
    a.high[i] = quad_halves(high);
    a.low[i] = quad_halves(half2(half(rest.x), half(rest.y)));
  }
  static void columns(thread simdgroup_float8x8 *sums, thread const left &a, threadgroup const half *b, uint stride) {
    simdgroup_half8x8 right[4];
    quad_load_right(right, b, stride);
    quad_multiply_accumulate(sums, a.low, right);
    quad_multiply_accumulate(sums, a.high, right);
  }
  static void rows(thread simdgroup_float8x8 *sums, thread const left &a, threadgroup const half *b, uint stride) {
    simdgroup_half8x8 right[4];
    quad_load_right_rows(right, b, stride);
    quad_multiply_accumulate(sums, a.low, right);
    quad_multiply_accumulate(sums, a.high, right);
  }
};

/* `rows` rows of `columns` elements into a tile whose rows are `stride` apart. Past `height` rows and `width` columns
 * there are zeros. Several loads are under way at a time. */
template <typename Products, typename Cache, uint rows, uint columns, uint stride>
static inline void fill(threadgroup typename Products::four *tile, device const typename Cache::stored *from,
                        ulong start, ulong row_stride, uint height, uint width, uint thread_index) {
  constexpr uint TOGETHER = 4;
#pragma unroll
  for (uint first = 0; first < rows * columns / 4; first += TOGETHER * THREADS) {
    typename Products::four fours[TOGETHER];
#pragma unroll
    for (uint i = 0; i < TOGETHER; ++i) {
      uint place = 4 * (first + i * THREADS + thread_index), row = place / columns, column = place % columns;
      bool exists = row < height && column < width;
      float4 values = Cache::four(from, start + (exists ? row * row_stride + column : 0));
      fours[i] = Products::stored(exists ? values : float4(0));
    }
#pragma unroll
    for (uint i = 0; i < TOGETHER; ++i) {
      uint place = 4 * (first + i * THREADS + thread_index), row = place / columns, column = place % columns;
      tile[(row * stride + column) / 4] = fours[i];
    }
  }
}

/* The same of halves as they are, which are there after a wait for copies and a barrier. */
template <uint rows, uint columns, uint stride>
static inline void copy_tile(threadgroup uint2 *tile, device const half *from, ulong start, ulong row_stride,
                             uint height, uint width, uint thread_index) {
#pragma unroll
  for (uint first = 0; first < rows * columns / 8; first += THREADS) {
    uint place = 8 * (first + thread_index), row = place / columns, column = place % columns;
    threadgroup uint4 *to = (threadgroup uint4 *)(tile + (row * stride + column) / 4);
    device const half *place_of_row = from + start + row * row_stride;
    if (row < height && column < width) async_copy(to, (device const uint4 *)(place_of_row + column));
    else *to = uint4(0);
  }
  async_copy_close();
}

/* Fills a tile with rows of a cache; with those of halves it may still be under way afterwards. */
template <typename Products, typename Cache, uint rows, uint columns, uint stride> struct tile_of {
  static void put(threadgroup typename Products::four *tile, device const typename Cache::stored *from, ulong start,
                  ulong row_stride, uint height, uint width, bool, uint thread_index) {
    fill<Products, Cache, rows, columns, stride>(tile, from, start, row_stride, height, width, thread_index);
  }
};
template <uint rows, uint columns, uint stride> struct tile_of<half_products, aligned_f16, rows, columns, stride> {
  static void put(threadgroup uint2 *tile, device const half *from, ulong start, ulong row_stride, uint height,
                  uint width, bool in_eights, uint thread_index) {
    if (in_eights) copy_tile<rows, columns, stride>(tile, from, start, row_stride, height, width, thread_index);
    else fill<half_products, aligned_f16, rows, columns, stride>(tile, from, start, row_stride, height, width,
                                                                 thread_index);
  }
};

/* The largest and the sum over a row of a matrix: over the four lanes that hold it. */
static inline float largest_of_row(float value) {
  value = max(value, simd_shuffle_xor(value, quad_lane(0)));
  return max(value, simd_shuffle_xor(value, quad_lane(1)));
}
static inline float sum_of_row(float value) {
  value += simd_shuffle_xor(value, quad_lane(0));
  return value + simd_shuffle_xor(value, quad_lane(1));
}

/* What a row of queries has so far. */
struct row_state {
  uint position;
  float scale; /* of scores */
  float largest, sum; /* the sum of this lane's columns */
};

template <typename Products, typename Cache, typename Stored, uint D>
[[kernel, max_total_threads_per_threadgroup(128)]] void attention_quads(
    device const float *q [[buffer(ATTENTION_Q)]], device const Stored *k [[buffer(ATTENTION_K)]],
    device const Stored *v [[buffer(ATTENTION_V)]], device float *out [[buffer(ATTENTION_OUT)]],
    constant attention_args &args [[buffer(ATTENTION_ARGS)]], uint2 group [[threadgroup_position_in_grid]],
    uint2 groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  /* These strides keep what a SIMD-group reads at a time apart in the banks: of floats pairs along a head of keys, and
   * pairs of rows of values. */
  constexpr uint KEYS = 4096 / D;
  constexpr uint KEY_STRIDE = D + Products::KEY_PADDING, VALUE_STRIDE = D + Products::VALUE_PADDING;
  constexpr uint VALUES = Products::ARE_APART ? KEYS * KEY_STRIDE / 4 : 0;
  threadgroup typename Products::four memory[VALUES + KEYS * KEY_STRIDE / 4];
  threadgroup const typename Products::value *key_tile = (threadgroup const typename Products::value *)memory;
  threadgroup const typename Products::value *value_tile = key_tile + 4 * VALUES;
  typedef tile_of<Products, Cache, KEYS, D, KEY_STRIDE> keys_tile;
  typedef tile_of<Products, Cache, KEYS, D, VALUE_STRIDE> values_tile;

  uint head = group.x, token = (groups.y - 1 - group.y) * QUERIES;
  uint count = min(args.tokens - token, QUERIES), first_query = token + simdgroup * 16;
  ulong kv_head = head / (args.heads / args.kv_heads);
  /* Where this lane's two neighbors of every 8 x 8 matrix stand. */
  uint2 place = quad_place(lane);

  row_state rows[2];
  typename Products::left queries[D / 16];
  simdgroup_float8x8 sums[D / 16][4];
#pragma unroll
  for (uint r = 0; r < 2; ++r) {
    uint query = first_query + r * 8 + place.x;
    device const float *from = q + query * args.q_token_stride + head * args.q_head_stride;
    float2 pairs[D / 8];
    float largest = 0;
#pragma unroll
    for (uint d = 0; d < D / 8; ++d) {
      uint element = d * 8 + place.y;
      pairs[d] = float2(0);
      if (query < args.tokens && element < args.head_dim) pairs[d].x = from[element];
      if (query < args.tokens && element + 1 < args.head_dim) pairs[d].y = from[element + 1];
      largest = max(largest, max(fabs(pairs[d].x), fabs(pairs[d].y)));
    }
    float power = power_for(largest_of_row(largest));
#pragma unroll
    for (uint d = 0; d < D / 8; ++d) {
      Products::set(queries[d / 2], r * 2 + d % 2, pairs[d] * power);
      sums[d / 2][r * 2 + d % 2] = quad_matrix(float2(0));
    }
    rows[r].scale = inverse_of_power(power) * args.scale;
    rows[r].position = args.first_position + first_query + r * 8 + place.x;
    rows[r].largest = as_type<float>(0xff800000u);
    rows[r].sum = 0;
  }

  uint first = args.first_position + token, last = first + count - 1;
  uint start = args.window > 0 && first >= args.window ? first - args.window + 1 : 0;
  ulong k_start = kv_head * args.k_head_stride, v_start = kv_head * args.v_head_stride;
  bool k_in_eights = (args.k_token_stride | args.k_head_stride | args.head_dim) % 8 == 0;
  bool v_in_eights = (args.v_token_stride | args.v_head_stride | args.head_dim) % 8 == 0;
  if (Products::ARE_APART)
    keys_tile::put(memory, k, k_start + start * args.k_token_stride, args.k_token_stride, last - start + 1,
                   args.head_dim, k_in_eights, thread_index);
  for (uint key = start; key <= last; key += KEYS) {
    uint keys = last - key + 1;
    /* Whether any of this SIMD-group's queries sees any of these keys. */
    bool sees = first_query < args.tokens && key <= args.first_position + first_query + 15;
    if (!Products::ARE_APART) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      keys_tile::put(memory, k, k_start + key * args.k_token_stride, args.k_token_stride, keys, args.head_dim,
                     k_in_eights, thread_index);
    }
    async_copy_wait<0>();
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (Products::ARE_APART)
      values_tile::put(memory + VALUES, v, v_start + key * args.v_token_stride, args.v_token_stride, keys,
                       args.head_dim, v_in_eights, thread_index);
    simdgroup_float8x8 scores[KEYS / 16][4];
    if (sees) {
#pragma unroll
      for (uint j = 0; j < KEYS / 16; ++j) {
#pragma unroll
        for (uint i = 0; i < 4; ++i) scores[j][i] = quad_matrix(float2(0));
#pragma unroll
        for (uint d = 0; d < D / 16; ++d)
          Products::columns(scores[j], queries[d], key_tile + j * 16 * KEY_STRIDE + d * 16, KEY_STRIDE);
      }
#pragma unroll
      for (uint r = 0; r < 2; ++r) {
        float before = rows[r].largest, largest = before;
#pragma unroll
        for (uint j = 0; j < KEYS / 8; ++j) {
          float2 pair = quad_elements(scores[j / 2][r * 2 + j % 2]) * rows[r].scale;
          if (args.softcap > 0) pair = float2(soft_capped(pair.x, args.softcap), soft_capped(pair.y, args.softcap));
          scores[j / 2][r * 2 + j % 2] = quad_matrix(pair);
        }
#pragma unroll
        for (uint j = 0; j < KEYS / 8; ++j) {
          float2 pair = quad_elements(scores[j / 2][r * 2 + j % 2]);
#pragma unroll
          for (uint i = 0; i < 2; ++i) {
            uint other = key + j * 8 + place.y + i;
            bool seen = other <= rows[r].position && (args.window == 0 || rows[r].position - other < args.window);
            pair[i] = seen ? pair[i] : as_type<float>(0xff800000u);
            largest = max(largest, pair[i]);
          }
          scores[j / 2][r * 2 + j % 2] = quad_matrix(pair);
        }
        largest = largest_of_row(largest);
        float rescale = weightless(before) ? 0.0f : precise::exp(before - largest);
        float sum = rows[r].sum * rescale;
#pragma unroll
        for (uint j = 0; j < KEYS / 8; ++j) {
          float2 pair = quad_elements(scores[j / 2][r * 2 + j % 2]);
#pragma unroll
          for (uint i = 0; i < 2; ++i) {
            /* e^-200 is 0, without a branch. */
            pair[i] = precise::exp(weightless(pair[i]) ? -200.0f : pair[i] - largest);
            sum += pair[i];
          }
          scores[j / 2][r * 2 + j % 2] = quad_matrix(pair);
        }
#pragma unroll
        for (uint d = 0; d < D / 8; ++d)
          sums[d / 2][r * 2 + d % 2] = quad_matrix(quad_elements(sums[d / 2][r * 2 + d % 2]) * rescale);
        rows[r].largest = largest;
        rows[r].sum = sum;
      }
    }

    if (!Products::ARE_APART) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      values_tile::put(memory, v, v_start + key * args.v_token_stride, args.v_token_stride, keys, args.head_dim,
                       v_in_eights, thread_index);
    }
    async_copy_wait<0>();
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (Products::ARE_APART && keys > KEYS)
      keys_tile::put(memory, k, k_start + (key + KEYS) * args.k_token_stride, args.k_token_stride, keys - KEYS,
                     args.head_dim, k_in_eights, thread_index);
    if (sees) {
#pragma unroll
      for (uint j = 0; j < KEYS / 16; ++j) {
        typename Products::left weights;
#pragma unroll
        for (uint i = 0; i < 4; ++i) Products::set(weights, i, quad_elements(scores[j][i]));
#pragma unroll
        for (uint d = 0; d < D / 16; ++d)
          Products::rows(sums[d], weights, value_tile + j * 16 * VALUE_STRIDE + d * 16, VALUE_STRIDE);
      }
    }
  }

#pragma unroll
  for (uint r = 0; r < 2; ++r) {
    float sum = sum_of_row(rows[r].sum);
    bool weighs = as_type<uint>(sum) != 0;
    uint query = first_query + r * 8 + place.x;
    device float *to = out + query * args.out_token_stride + head * args.out_head_stride;
#pragma unroll
    for (uint d = 0; d < D / 8; ++d) {
      float2 pair = quad_elements(sums[d / 2][r * 2 + d % 2]);
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        uint element = d * 8 + place.y + i;
        if (query >= args.tokens || element >= args.head_dim) continue;
        to[element] = weighs ? pair[i] / sum : as_type<float>(0x7fc00000u);
      }
    }
  }
}

#define ATTENTION(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(attention_quads<__VA_ARGS__>) attention_quads<__VA_ARGS__>;

ATTENTION("attention_quads_64_f32", float_products, aligned_f32, float, 64)
ATTENTION("attention_quads_64_f16", half_products, aligned_f16, half, 64)
ATTENTION("attention_quads_64_bf16", float_products, aligned_bf16, ushort, 64)
ATTENTION("attention_quads_64_q8_0", float_products, aligned_q8_0, ushort, 64)
ATTENTION("attention_quads_128_f32", float_products, aligned_f32, float, 128)
ATTENTION("attention_quads_128_f16", half_products, aligned_f16, half, 128)
ATTENTION("attention_quads_128_bf16", float_products, aligned_bf16, ushort, 128)
ATTENTION("attention_quads_128_q8_0", float_products, aligned_q8_0, ushort, 128)
