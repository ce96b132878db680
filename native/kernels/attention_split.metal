/* attention_split_<C> and attention_merge: attention of few queries to many keys, in pieces, which are then put
 * together. Contracts in args.h.
 *
 * Geometry: split: a threadgroup of 128 threads for each piece: (splits, heads, tokens). Merge: one SIMD-group for each
 * head of each
 * token: (heads, tokens, 1) of 32 threads.
 *
 * One query leaves a GPU idle unless the keys are shared out as well: Flash-Decoding (Dao, Haziza, Massa & Sizov 2023,
 * pytorch.org/blog/flash-decoding), on Apple's GPUs MLX's sdpa_vector_2pass (mlx/backend/metal/kernels/sdpa_vector.h).
 * Within a piece eight lanes make a team, which takes one key at a time, each lane 4 of every 32 neighbouring elements,
 * as in llama.cpp's
 * kernel_flash_attn_ext_vec: a score costs three shuffles and not five, and a SIMD-group has four keys in flight. Each
 * of the 16 teams keeps its own largest score and sums; they are put together once, at the end. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "caches.h"
#include "pieces.h"

constant constexpr uint SIMDGROUPS = 4;
constant constexpr uint TEAM = 8;                  /* lanes */
constant constexpr uint TEAMS = 32 / TEAM;         /* of a SIMD-group */
constant constexpr uint HEAD_DIM = 256;            /* at most */
constant constexpr uint FOURS = HEAD_DIM / 4 / TEAM; /* of elements, for a lane */

template <typename Cache, typename Stored>
[[kernel]] void attention_split(
    device const float *q [[buffer(ATTENTION_Q)]], device const Stored *k [[buffer(ATTENTION_K)]],
    device const Stored *v [[buffer(ATTENTION_V)]], device float *out [[buffer(ATTENTION_OUT)]],
    constant attention_args &args [[buffer(ATTENTION_ARGS)]], uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float parts[SIMDGROUPS][HEAD_DIM];
  threadgroup float largests[SIMDGROUPS], all_sums[SIMDGROUPS];

  uint split = group.x, head = group.y, token = group.z;
  uint element = 4 * (lane % TEAM);
  device const float *from = q + token * args.q_token_stride + head * args.q_head_stride;
  float4 query[FOURS], weighted[FOURS];
#pragma unroll
  for (uint i = 0; i < FOURS; ++i) {
    uint d = element + 4 * TEAM * i;
    query[i] = d < args.head_dim ? four_of<f32>(from + d, args.head_dim - d) : float4(0);
    weighted[i] = float4(0);
  }

  uint position = args.first_position + token;
  uint first = args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
  ulong start = first + ulong(split) * args.split_length, end = min(start + args.split_length, ulong(position) + 1);
  ulong kv_head = head / (args.heads / args.kv_heads);
  float largest = 0, sum = 0;
  for (ulong j = start + simdgroup * TEAMS; j < end; j += SIMDGROUPS * TEAMS) {
    ulong key = j + lane / TEAM;
    float score = 0;
    if (key < end)
#pragma unroll
      for (uint i = 0; i < FOURS; ++i) {
        uint d = element + 4 * TEAM * i;
        if (d >= args.head_dim) break;
        score += dot(query[i],
                     Cache::four(k, kv_head * args.k_head_stride + key * args.k_token_stride + d, args.head_dim - d));
      }
#pragma unroll
    for (uint other = 1; other < TEAM; other *= 2) score += simd_shuffle_xor(score, ushort(other));
    score = soft_capped(score * args.scale, args.softcap);
    if (key >= end || weightless(score)) continue;

    float before = largest;
    largest = as_type<uint>(sum) == 0 ? score : max(before, score);
    float rescale = share(before, sum, largest), weight = precise::exp(score - largest);
    sum = sum * rescale + weight;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) {
      uint d = element + 4 * TEAM * i;
      if (d >= args.head_dim) break;
      float4 value = Cache::four(v, kv_head * args.v_head_stride + key * args.v_token_stride + d, args.head_dim - d);
      weighted[i] = weighted[i] * rescale + value * weight;
    }
  }

  /* The teams of a SIMD-group. */
#pragma unroll
  for (uint other = TEAM; other < 32; other *= 2) {
    float other_largest = simd_shuffle_xor(largest, ushort(other)), other_sum = simd_shuffle_xor(sum, ushort(other));
    float common = common_largest(largest, sum, other_largest, other_sum);
    float mine = share(largest, sum, common), theirs = share(other_largest, other_sum, common);
    largest = common;
    sum = sum * mine + other_sum * theirs;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i)
      weighted[i] = weighted[i] * mine + simd_shuffle_xor(weighted[i], ushort(other)) * theirs;
  }
  if (lane < TEAM)
#pragma unroll
    for (uint i = 0; i < FOURS; ++i)
#pragma unroll
      for (uint x = 0; x < 4; ++x) parts[simdgroup][element + 4 * TEAM * i + x] = weighted[i][x];
  if (lane == 0) {
    largests[simdgroup] = largest;
    all_sums[simdgroup] = sum;
  }

  /* The SIMD-groups. */
  threadgroup_barrier(mem_flags::mem_threadgroup);
  largest = largests[0];
  sum = all_sums[0];
#pragma unroll
  for (uint i = 1; i < SIMDGROUPS; ++i) {
    largest = common_largest(largest, sum, largests[i], all_sums[i]);
    sum = as_type<uint>(all_sums[i]) == 0 ? sum : all_sums[i];
  }
  float shares[SIMDGROUPS];
  sum = 0;
#pragma unroll
  for (uint i = 0; i < SIMDGROUPS; ++i) {
    shares[i] = share(largests[i], all_sums[i], largest);
    sum += all_sums[i] * shares[i];
  }
  ulong row = (ulong(token) * args.heads + head) * args.splits + split;
  device float *to = out + row * (args.head_dim + 2);
  for (uint d = thread_index; d < args.head_dim; d += 32 * SIMDGROUPS) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += parts[i][d] * shares[i];
    to[d] = total;
  }
  if (thread_index == 0) {
    to[args.head_dim] = largest;
    to[args.head_dim + 1] = sum;
  }
}

#define SPLIT(NAME, CACHE, STORED) \
  template [[host_name(NAME)]] [[kernel]] decltype(attention_split<CACHE, STORED>) attention_split<CACHE, STORED>;

SPLIT("attention_split_f32", numbers<f32>, float)
SPLIT("attention_split_f16", numbers<f16>, half)
SPLIT("attention_split_bf16", numbers<bf16>, ushort)
SPLIT("attention_split_q8_0", q8_0_blocks, ushort)

[[kernel]] void attention_merge(device const float *parts [[buffer(ATTENTION_MERGE_PARTS)]],
                                device float *out [[buffer(ATTENTION_MERGE_OUT)]],
                                constant attention_args &args [[buffer(ATTENTION_MERGE_ARGS)]],
                                uint2 group [[threadgroup_position_in_grid]],
                                uint lane [[thread_index_in_simdgroup]]) {
  uint head = group.x, token = group.y, length = args.head_dim + 2;
  device const float *rows = parts + (ulong(token) * args.heads + head) * args.splits * length;
  device float *to = out + token * args.out_token_stride + head * args.out_head_stride;

  float largest = 0, weights = 0;
  for (uint s = 0; s < args.splits; ++s) {
    float other = rows[ulong(s) * length + args.head_dim], sum = rows[ulong(s) * length + args.head_dim + 1];
    largest = common_largest(largest, weights, other, sum);
    if (as_type<uint>(sum) != 0) weights = sum;
  }
  float sum = 0, totals[HEAD_DIM / 32] = {};
  for (uint s = 0; s < args.splits; ++s) {
    device const float *row = rows + ulong(s) * length;
    float mine = share(row[args.head_dim], row[args.head_dim + 1], largest);
    sum += row[args.head_dim + 1] * mine;
#pragma unroll
    for (uint i = 0; i < HEAD_DIM / 32; ++i)
      if (lane + 32 * i < args.head_dim) totals[i] += row[lane + 32 * i] * mine;
  }
#pragma unroll
  for (uint i = 0; i < HEAD_DIM / 32; ++i) {
    if (lane + 32 * i >= args.head_dim) break;
    to[lane + 32 * i] = as_type<uint>(sum) == 0 ? as_type<float>(0x7fc00000u) : totals[i] / sum;
  }
}
