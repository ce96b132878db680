/* attention_wide_<D>_<C> and attention_wide_merge_<D>: attention of few queries, D = head_dim, on devices of many
 * cores. Contract in args.h: as attention_split and attention_merge, but for at most 32 pieces, and one piece is the
 * whole attention, whose OUT is that of attention. Besides, heads and tokens lie at multiples of 16 bytes.
 *
 * attention_texts_<D>_<C> and attention_texts_merge_<D>: the same of several texts.
 *
 * Geometry: a threadgroup of 256 threads for each piece: (splits, heads, tokens or texts). Merge: one for each head of
 * each token or text: (heads, tokens, 1) of 128 threads.
 *
 * The design is attention_split's. What differs is for latency, since a piece has few keys: how many elements a lane
 * has is known when it is compiled, none is beyond the head, and values are read together with the keys and not after
 * them. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "caches.h"
#include "aligned_caches.h"
#include "pieces.h"
#include "async_copy.h"

#ifdef __HAVE_IRONBRIDGE_ONLY_BY_VALUE__
/* A kernel indexes it. */
template <> struct msl::only_by_value<attention_texts_args> { enum { value = 1 }; };
#endif

constant constexpr uint SIMDGROUPS = 8;
constant constexpr uint TEAM = 8;          /* lanes, which share out a head */
constant constexpr uint TEAMS = 32 / TEAM; /* of a SIMD-group */

/* Bytes that read_ahead brings. */
constant constexpr uint LINE = 128;

/* Reads the keys or values of a piece ahead, whose newest ones the predecessor may be about to write. */
template <typename Cache, uint D>
static inline void read_head_ahead(device const typename Cache::stored *cache, ulong head, ulong stride, ulong start,
                                   ulong end, uint thread_index) {
  constexpr uint BYTES = D / Cache::BLOCK * Cache::WORDS * sizeof(typename Cache::stored);
  constexpr uint LINES = (BYTES + LINE - 1) / LINE;
  for (ulong i = start * LINES + thread_index; i < end * LINES; i += 32 * SIMDGROUPS) {
    ulong element = head + i / LINES * stride;
    read_ahead((device const uchar *)(cache + element / Cache::BLOCK * Cache::WORDS) + i % LINES * LINE);
  }
}

/* Where the output of a query begins: of a token, and of a text. */
struct token_out {
  device float *out;
  uint number;
  device float *all() const { return out; }
  device float *own(constant attention_args &args) const { return out + number * args.out_token_stride; }
};
struct text_out {
  device uchar *out;
  constant attention_text *text;
  uint number;
  device float *all() const { return (device float *)out; }
  device float *own(constant attention_args &) const { return (device float *)(out + text->out); }
};

/* What one head of a query makes of a piece of its keys, to `out` as args.h says. `parts` has SIMDGROUPS * D floats,
 * `largests` and `all_sums` have SIMDGROUPS. */
template <typename Cache, uint D, typename Out>
static inline void attend_to_piece(device const float *q, device const typename Cache::stored *k,
                                   device const typename Cache::stored *v, thread const Out &out,
                                   constant attention_args &args, uint position, uint window, uint split_length,
                                   uint split, uint head, threadgroup float *parts, threadgroup float *largests,
                                   threadgroup float *all_sums, uint thread_index, uint simdgroup, uint lane) {
  constexpr uint FOURS = D / 4 / TEAM;
  uint first = window > 0 && position >= window ? position - window + 1 : 0;
  ulong start = first + ulong(split) * split_length, end = min(start + split_length, ulong(position) + 1);
  ulong kv_head = head / (args.heads / args.kv_heads);
  allow_successor();
  read_head_ahead<Cache, D>(k, kv_head * args.k_head_stride, args.k_token_stride, start, end, thread_index);
  read_head_ahead<Cache, D>(v, kv_head * args.v_head_stride, args.v_token_stride, start, end, thread_index);
  wait_for_predecessor();

  uint element = 4 * (lane % TEAM);
  device const float *from = q + head * args.q_head_stride + element;
  float4 query[FOURS], weighted[FOURS];
#pragma unroll
  for (uint i = 0; i < FOURS; ++i) {
    query[i] = *(device const float4 *)(from + 4 * TEAM * i);
    weighted[i] = float4(0);
  }

  ulong keys = kv_head * args.k_head_stride + element, values = kv_head * args.v_head_stride + element;
  float largest = 0, sum = 0;
  for (ulong j = start + simdgroup * TEAMS; j < end; j += SIMDGROUPS * TEAMS) {
    /* Past the last key stands the last one again, without weight. */
    ulong place = j + lane / TEAM, key = min(place, end - 1);
    float4 key_fours[FOURS], value_fours[FOURS];
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) {
      key_fours[i] = Cache::four(k, keys + key * args.k_token_stride + 4 * TEAM * i);
      value_fours[i] = Cache::four(v, values + key * args.v_token_stride + 4 * TEAM * i);
    }
    float score = 0;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) score += dot(query[i], key_fours[i]);
#pragma unroll
    for (uint other = 1; other < TEAM; other *= 2) score += simd_shuffle_xor(score, ushort(other));
    score *= args.scale;
    if (place >= end || weightless(score)) continue;

    float before = largest;
    largest = as_type<uint>(sum) == 0 ? score : max(before, score);
    float rescale = share(before, sum, largest), weight = precise::exp(score - largest);
    sum = sum * rescale + weight;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) weighted[i] = weighted[i] * rescale + value_fours[i] * weight;
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
      for (uint x = 0; x < 4; ++x) parts[simdgroup * D + element + 4 * TEAM * i + x] = weighted[i][x];
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
  bool whole = args.splits == 1;
  ulong row = (ulong(out.number) * args.heads + head) * args.splits + split;
  device float *to = whole ? out.own(args) + head * args.out_head_stride : out.all() + row * (D + 2);
  for (uint d = thread_index; d < D; d += 32 * SIMDGROUPS) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += parts[i * D + d] * shares[i];
    if (whole) total = as_type<uint>(sum) == 0 ? as_type<float>(0x7fc00000u) : total / sum;
    to[d] = total;
  }
  if (thread_index == 0 && !whole) {
    to[D] = largest;
    to[D + 1] = sum;
  }
}

template <typename Cache, uint D>
[[kernel]] void attention_wide(device const float *q [[buffer(ATTENTION_Q)]],
                               device const typename Cache::stored *k [[buffer(ATTENTION_K)]],
                               device const typename Cache::stored *v [[buffer(ATTENTION_V)]],
                               device float *out [[buffer(ATTENTION_OUT)]],
                               constant attention_args &args [[buffer(ATTENTION_ARGS)]],
                               uint3 group [[threadgroup_position_in_grid]],
                               uint thread_index [[thread_index_in_threadgroup]],
                               uint simdgroup [[simdgroup_index_in_threadgroup]],
                               uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float parts[SIMDGROUPS * D];
  threadgroup float largests[SIMDGROUPS], all_sums[SIMDGROUPS];
  uint split = group.x, head = group.y, token = group.z;
  token_out to = {out, token};
  attend_to_piece<Cache, D>(q + token * args.q_token_stride, k, v, to, args, args.first_position + token, args.window,
                            args.split_length, split, head, parts, largests, all_sums, thread_index, simdgroup, lane);
}

template <typename Cache, uint D>
[[kernel]] void attention_texts(device const uchar *q [[buffer(ATTENTION_Q)]],
                                device const uchar *k [[buffer(ATTENTION_K)]],
                                device const uchar *v [[buffer(ATTENTION_V)]],
                                device uchar *out [[buffer(ATTENTION_OUT)]],
                                constant attention_texts_args &args [[buffer(ATTENTION_ARGS)]],
                                uint3 group [[threadgroup_position_in_grid]],
                                uint thread_index [[thread_index_in_threadgroup]],
                                uint simdgroup [[simdgroup_index_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float parts[SIMDGROUPS * D];
  threadgroup float largests[SIMDGROUPS], all_sums[SIMDGROUPS];
  uint split = group.x, head = group.y;
  constant attention_args &common = args.common;
  constant attention_text &text = args.texts[group.z];
  text_out to = {out, &text, group.z};
  attend_to_piece<Cache, D>((device const float *)(q + text.q), (device const typename Cache::stored *)(k + text.k),
                            (device const typename Cache::stored *)(v + text.v), to, common, text.position, text.window,
                            text.split_length, split, head, parts, largests, all_sums, thread_index, simdgroup, lane);
}

/* Puts the pieces of one head of a query together. */
template <uint D>
static inline void merge_pieces(device const float *rows, device float *to, uint splits, uint thread_index, uint lane) {
  /* A lane knows of one piece. */
  float largest = 0, sum = 0;
  if (lane < splits) {
    largest = rows[lane * (D + 2) + D];
    sum = rows[lane * (D + 2) + D + 1];
  }
  float common = largest, weights = sum;
#pragma unroll
  for (uint other = 1; other < 32; other *= 2) {
    float other_largest = simd_shuffle_xor(common, ushort(other)), other_sum = simd_shuffle_xor(weights, ushort(other));
    common = common_largest(common, weights, other_largest, other_sum);
    weights = as_type<uint>(other_sum) == 0 ? weights : other_sum;
  }
  float mine = share(largest, sum, common);
  sum = simd_sum(sum * mine);

  float total = 0;
#pragma unroll 4
  for (uint s = 0; s < splits; ++s) {
    float weight = simd_shuffle(mine, ushort(s));
    if (thread_index < D) total += rows[s * (D + 2) + thread_index] * weight;
  }
  if (thread_index < D) to[thread_index] = as_type<uint>(sum) == 0 ? as_type<float>(0x7fc00000u) : total / sum;
}

template <uint D>
[[kernel]] void attention_wide_merge(device const float *parts [[buffer(ATTENTION_MERGE_PARTS)]],
                                     device float *out [[buffer(ATTENTION_MERGE_OUT)]],
                                     constant attention_args &args [[buffer(ATTENTION_MERGE_ARGS)]],
                                     uint2 group [[threadgroup_position_in_grid]],
                                     uint thread_index [[thread_index_in_threadgroup]],
                                     uint lane [[thread_index_in_simdgroup]]) {
  uint head = group.x, token = group.y;
  merge_pieces<D>(parts + (ulong(token) * args.heads + head) * args.splits * (D + 2),
                  out + token * args.out_token_stride + head * args.out_head_stride, args.splits, thread_index, lane);
}

template <uint D>
[[kernel]] void attention_texts_merge(device const float *parts [[buffer(ATTENTION_MERGE_PARTS)]],
                                      device uchar *out [[buffer(ATTENTION_MERGE_OUT)]],
                                      constant attention_texts_args &args [[buffer(ATTENTION_MERGE_ARGS)]],
                                      uint2 group [[threadgroup_position_in_grid]],
                                      uint thread_index [[thread_index_in_threadgroup]],
                                      uint lane [[thread_index_in_simdgroup]]) {
  uint head = group.x, text = group.y;
  constant attention_args &common = args.common;
  device float *to = (device float *)(out + args.texts[text].out) + head * common.out_head_stride;
  merge_pieces<D>(parts + (ulong(text) * common.heads + head) * common.splits * (D + 2), to, common.splits,
                  thread_index, lane);
}

#define WIDE(NAME, CACHE, D)                                                                                  \
  template [[host_name("attention_wide_" NAME)]] [[kernel]] decltype(attention_wide<CACHE, D>)                \
      attention_wide<CACHE, D>;                                                                               \
  template [[host_name("attention_texts_" NAME)]] [[kernel]] decltype(attention_texts<CACHE, D>)              \
      attention_texts<CACHE, D>;
#define MERGE(NAME, D)                                                                                        \
  template [[host_name("attention_wide_merge_" NAME)]] [[kernel]] decltype(attention_wide_merge<D>)           \
      attention_wide_merge<D>;                                                                                \
  template [[host_name("attention_texts_merge_" NAME)]] [[kernel]] decltype(attention_texts_merge<D>)         \
      attention_texts_merge<D>;

WIDE("64_f32", aligned_f32, 64)
WIDE("64_f16", aligned_f16, 64)
WIDE("64_bf16", aligned_bf16, 64)
WIDE("64_q8_0", aligned_q8_0, 64)
WIDE("128_f32", aligned_f32, 128)
WIDE("128_f16", aligned_f16, 128)
WIDE("128_bf16", aligned_bf16, 128)
WIDE("128_q8_0", aligned_q8_0, 128)
MERGE("64", 64)
MERGE("128", 128)
