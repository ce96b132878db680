/* attention_backward_q and attention_backward_kv. Contracts in args.h.
 *
 * Geometry: one SIMD-group for each token and head of q, or of k and v: dispatchThreadgroups (heads, tokens, 1) or
 * (kv_heads, tokens, 1) of (32, 1, 1) threads.
 *
 * Probabilities are not kept but computed again from the logarithm of their sum (Dao 2023, arXiv:2307.08691, algorithm
 * 2). What a SIMD-group writes is its own, so that the same input always gives the same bits. A lane has every 32nd
 * element of a head in registers. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

constant constexpr uint PARTS = 8; /* of 32 elements: a head has at most 256 */

static inline void load_head(thread float *head, device const float *from, uint head_dim, uint lane) {
#pragma unroll
  for (uint part = 0; part < PARTS; ++part) {
    uint d = part * 32 + lane;
    head[part] = d < head_dim ? from[d] : 0.0f;
  }
}

static inline void store_head(thread const float *head, device float *to, uint head_dim, uint lane) {
#pragma unroll
  for (uint part = 0; part < PARTS; ++part) {
    uint d = part * 32 + lane;
    if (d < head_dim) to[d] = head[part];
  }
}

static inline float dot_heads(thread const float *a, thread const float *b) {
  float sum = 0;
#pragma unroll
  for (uint part = 0; part < PARTS; ++part) sum += a[part] * b[part];
  return simd_sum(sum);
}

static inline void add_scaled(thread float *sums, float factor, thread const float *head) {
#pragma unroll
  for (uint part = 0; part < PARTS; ++part) sums[part] += factor * head[part];
}

[[kernel]] void attention_backward_q(device const float *q [[buffer(ATTENTION_BACKWARD_Q)]],
                                     device const float *k [[buffer(ATTENTION_BACKWARD_K)]],
                                     device const float *v [[buffer(ATTENTION_BACKWARD_V)]],
                                     device const float *gradient [[buffer(ATTENTION_BACKWARD_GRADIENT)]],
                                     device float *sums [[buffer(ATTENTION_BACKWARD_SUMS)]],
                                     device const float *out [[buffer(ATTENTION_BACKWARD_OUT)]],
                                     device float *q_gradient [[buffer(ATTENTION_BACKWARD_Q_GRADIENT)]],
                                     constant attention_backward_args &args [[buffer(ATTENTION_BACKWARD_ARGS)]],
                                     uint3 position [[threadgroup_position_in_grid]],
                                     uint lane [[thread_index_in_simdgroup]]) {
  uint h = position.x;
  ulong t = position.y;
  if (h >= args.heads || t >= args.tokens) return;
  ulong start = h * args.head_dim, kv_start = h / (args.heads / args.kv_heads) * args.head_dim;
  float query[PARTS], change[PARTS], value[PARTS], key[PARTS], result[PARTS] = {0};
  load_head(query, q + t * args.q_stride + start, args.head_dim, lane);
  load_head(change, gradient + t * args.gradient_stride + start, args.head_dim, lane);
  load_head(value, out + t * args.out_stride + start, args.head_dim, lane);
  float mean = dot_heads(change, value);

  float largest = -INFINITY, sum = 0;
  for (ulong j = 0; j <= t; ++j) {
    load_head(key, k + j * args.k_stride + kv_start, args.head_dim, lane);
    float score = args.scale * dot_heads(query, key), before = largest;
    largest = max(largest, score);
    sum = sum * precise::exp(before - largest) + precise::exp(score - largest);
  }
  float logarithm = largest + precise::log(sum);
  for (ulong j = 0; j <= t; ++j) {
    load_head(key, k + j * args.k_stride + kv_start, args.head_dim, lane);
    load_head(value, v + j * args.v_stride + kv_start, args.head_dim, lane);
    float p = precise::exp(args.scale * dot_heads(query, key) - logarithm);
    add_scaled(result, args.scale * (p * (dot_heads(change, value) - mean)), key);
  }
  store_head(result, q_gradient + t * args.q_gradient_stride + start, args.head_dim, lane);
  if (lane > 0) return;
  sums += 2 * (t * args.heads + h);
  sums[0] = logarithm;
  sums[1] = mean;
}

[[kernel]] void attention_backward_kv(device const float *q [[buffer(ATTENTION_BACKWARD_Q)]],
                                      device const float *k [[buffer(ATTENTION_BACKWARD_K)]],
                                      device const float *v [[buffer(ATTENTION_BACKWARD_V)]],
                                      device const float *gradient [[buffer(ATTENTION_BACKWARD_GRADIENT)]],
                                      device const float *sums [[buffer(ATTENTION_BACKWARD_SUMS)]],
                                      device float *k_gradient [[buffer(ATTENTION_BACKWARD_K_GRADIENT)]],
                                      device float *v_gradient [[buffer(ATTENTION_BACKWARD_V_GRADIENT)]],
                                      constant attention_backward_args &args [[buffer(ATTENTION_BACKWARD_ARGS)]],
                                      uint3 position [[threadgroup_position_in_grid]],
                                      uint lane [[thread_index_in_simdgroup]]) {
  uint g = position.x, group = args.heads / args.kv_heads;
  ulong j = position.y;
  if (g >= args.kv_heads || j >= args.tokens) return;
  ulong kv_start = g * args.head_dim;
  float key[PARTS], value[PARTS], query[PARTS], change[PARTS], of_key[PARTS] = {0}, of_value[PARTS] = {0};
  load_head(key, k + j * args.k_stride + kv_start, args.head_dim, lane);
  load_head(value, v + j * args.v_stride + kv_start, args.head_dim, lane);
  for (ulong t = j; t < args.tokens; ++t)
    for (uint h = g * group; h < (g + 1) * group; ++h) {
      load_head(query, q + t * args.q_stride + h * args.head_dim, args.head_dim, lane);
      load_head(change, gradient + t * args.gradient_stride + h * args.head_dim, args.head_dim, lane);
      device const float *of = sums + 2 * (t * args.heads + h);
      float p = precise::exp(args.scale * dot_heads(query, key) - of[0]);
      add_scaled(of_value, p, change);
      add_scaled(of_key, args.scale * (p * (dot_heads(change, value) - of[1])), query);
    }
  store_head(of_key, k_gradient + j * args.k_gradient_stride + kv_start, args.head_dim, lane);
  store_head(of_value, v_gradient + j * args.v_gradient_stride + kv_start, args.head_dim, lane);
}
