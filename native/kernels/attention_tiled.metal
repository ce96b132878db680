/* attention_tiled_<D>_<C>: causal grouped-query attention of many queries, for heads of at most D elements. Contract in
 * args.h.
 *
 * Geometry: threadgroups of 128 threads, each for one head of 32 queries: (heads, tokens / 32, 1), rounded up.
 *
 * FlashAttention-2: scores never reach device memory; a tile of keys at a time, the sums so far are rescaled whenever a
 * larger score turns up, and the division comes last (Dao 2023, arXiv:2307.08691, algorithm 1; Dao et al. 2022,
 * arXiv:2205.14135). On Apple's GPUs as in MLX, mlx/backend/metal/kernels/steel/attn: each of four SIMD-groups has
 * eight queries in registers, as 8x8 matrices, so that a row of scores belongs to four lanes of one SIMD-group and its
 * softmax needs two shuffles and no memory. Keys, then values, go through one tile of 16 KiB in threadgroup memory,
 * which all four SIMD-groups read: 64, 32 or 16 keys for D = 64, 128, 256, that is 64 matrix products a SIMD-group for
 * each. Unlike MLX's, tiles and products are float: args.h promises float results. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "caches.h"

constant constexpr uint THREADS = 128;
constant constexpr uint QUERIES = 32;
/* Columns of the queries that are read at a time. */
constant constexpr uint QUERY_COLUMNS = 64;

/* `rows` rows of `columns` elements into a tile whose rows are `stride` apart. Past `height` rows and `width` columns
 * there are zeros. */
template <typename Cache, uint rows, uint columns, uint stride>
static inline void fill(threadgroup float *tile, device const typename Cache::stored *from, ulong start,
                        ulong row_stride, uint height, uint width, uint thread_index) {
#pragma unroll
  for (uint first = 0; first < rows * columns; first += 4 * THREADS) {
    uint place = first + 4 * thread_index, row = place / columns, column = place % columns;
    float4 values = float4(0);
    if (row < height && column < width) values = Cache::four(from, start + row * row_stride + column, width - column);
#pragma unroll
    for (uint i = 0; i < 4; ++i) tile[row * stride + column + i] = values[i];
  }
}

/* The largest and the sum over a row of a matrix: over the four lanes that hold it. */
static inline float largest_of_row(float value) {
  value = max(value, simd_shuffle_xor(value, ushort(1)));
  return max(value, simd_shuffle_xor(value, ushort(8)));
}
static inline float sum_of_row(float value) {
  value += simd_shuffle_xor(value, ushort(1));
  return value + simd_shuffle_xor(value, ushort(8));
}

template <typename Cache, typename Stored, uint D>
[[kernel]] void attention_tiled(
    device const float *q [[buffer(ATTENTION_Q)]], device const Stored *k [[buffer(ATTENTION_K)]],
    device const Stored *v [[buffer(ATTENTION_V)]], device float *out [[buffer(ATTENTION_OUT)]],
    constant attention_args &args [[buffer(ATTENTION_ARGS)]], uint2 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint KEYS = 4096 / D, STRIDE = D + 4, QUERY_STRIDE = QUERY_COLUMNS + 4;
  threadgroup float tile[KEYS * STRIDE];

  uint head = group.x, token = group.y * QUERIES;
  uint count = min(args.tokens - token, QUERIES);
  ulong kv_head = head / (args.heads / args.kv_heads);

  simdgroup_float8x8 queries[D / 8], sums[D / 8];
#pragma unroll
  for (uint first = 0; first < D; first += QUERY_COLUMNS) {
    uint width = args.head_dim > first ? args.head_dim - first : 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    fill<numbers<f32>, QUERIES, QUERY_COLUMNS, QUERY_STRIDE>(
        tile, q, token * args.q_token_stride + head * args.q_head_stride + first, args.q_token_stride, count, width,
        thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < QUERY_COLUMNS; i += 8) {
      simdgroup_load(queries[(first + i) / 8], tile + simdgroup * 8 * QUERY_STRIDE + i, QUERY_STRIDE, ulong2(0, 0),
                     false);
      sums[(first + i) / 8] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }
  }

  /* Where this lane's two elements of every 8x8 matrix stand, in `row` at `column` and the next (as MLX has it,
   * steel/attn/mma.h). */
  uint quad = lane / 4, row = (quad & 4) + lane / 2 % 4, column = (quad & 2) * 2 + lane % 2 * 2;
  uint query = token + simdgroup * 8 + row, position = args.first_position + query;
  float largest = as_type<float>(0xff800000u), sum = 0; /* of this row; the sum of this lane's columns */

  uint first = args.first_position + token, last = first + count - 1;
  uint start = args.window > 0 && first >= args.window ? first - args.window + 1 : 0;
  for (uint key = start; key <= last; key += KEYS) {
    uint keys = last - key + 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    fill<Cache, KEYS, D, STRIDE>(tile, k, kv_head * args.k_head_stride + key * args.k_token_stride, args.k_token_stride,
                                 keys, args.head_dim, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 scores[KEYS / 8], factor;
#pragma unroll
    for (uint j = 0; j < KEYS / 8; ++j) {
      scores[j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
#pragma unroll
      for (uint d = 0; d < D / 8; ++d) {
        simdgroup_load(factor, tile + j * 8 * STRIDE + d * 8, STRIDE, ulong2(0, 0), true);
        simdgroup_multiply_accumulate(scores[j], queries[d], factor, scores[j]);
      }
    }

    float before = largest;
#pragma unroll
    for (uint j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        uint other = key + j * 8 + column + i;
        bool seen = other <= position && (args.window == 0 || position - other < args.window);
        float score = as_type<float>(0xff800000u);
        if (seen) score = soft_capped(scores[j].thread_elements()[i] * args.scale, args.softcap);
        scores[j].thread_elements()[i] = score;
        largest = max(largest, score);
      }
    largest = largest_of_row(largest);
    float rescale = weightless(before) ? 0.0f : precise::exp(before - largest);
    sum *= rescale;
#pragma unroll
    for (uint j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        float score = scores[j].thread_elements()[i];
        float weight = weightless(score) ? 0.0f : precise::exp(score - largest);
        scores[j].thread_elements()[i] = weight;
        sum += weight;
      }
#pragma unroll
    for (uint d = 0; d < D / 8; ++d) {
      sums[d].thread_elements()[0] *= rescale;
      sums[d].thread_elements()[1] *= rescale;
    }

    threadgroup_barrier(mem_flags::mem_threadgroup);
    fill<Cache, KEYS, D, STRIDE>(tile, v, kv_head * args.v_head_stride + key * args.v_token_stride, args.v_token_stride,
                                 keys, args.head_dim, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (uint d = 0; d < D / 8; ++d) {
        simdgroup_load(factor, tile + j * 8 * STRIDE + d * 8, STRIDE, ulong2(0, 0), false);
        simdgroup_multiply_accumulate(sums[d], scores[j], factor, sums[d]);
      }
  }

  sum = sum_of_row(sum);
  bool weighs = as_type<uint>(sum) != 0;
  device float *to = out + query * args.out_token_stride + head * args.out_head_stride;
#pragma unroll
  for (uint d = 0; d < D / 8; ++d)
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      uint element = d * 8 + column + i;
      if (query >= args.tokens || element >= args.head_dim) continue;
      to[element] = weighs ? sums[d].thread_elements()[i] / sum : as_type<float>(0x7fc00000u);
    }
}

#define ATTENTION(NAME, CACHE, STORED, D) \
  template [[host_name(NAME)]] [[kernel]] decltype(attention_tiled<CACHE, STORED, D>) attention_tiled<CACHE, STORED, D>;

ATTENTION("attention_tiled_64_f32", numbers<f32>, float, 64)
ATTENTION("attention_tiled_64_f16", numbers<f16>, half, 64)
ATTENTION("attention_tiled_64_bf16", numbers<bf16>, ushort, 64)
ATTENTION("attention_tiled_64_q8_0", q8_0_blocks, ushort, 64)
ATTENTION("attention_tiled_128_f32", numbers<f32>, float, 128)
ATTENTION("attention_tiled_128_f16", numbers<f16>, half, 128)
ATTENTION("attention_tiled_128_bf16", numbers<bf16>, ushort, 128)
ATTENTION("attention_tiled_128_q8_0", q8_0_blocks, ushort, 128)
ATTENTION("attention_tiled_256_f32", numbers<f32>, float, 256)
ATTENTION("attention_tiled_256_f16", numbers<f16>, half, 256)
ATTENTION("attention_tiled_256_bf16", numbers<bf16>, ushort, 256)
ATTENTION("attention_tiled_256_q8_0", q8_0_blocks, ushort, 256)
