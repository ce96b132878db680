/* attention_wide_<D>_<C> and attention_wide_merge_<D>: attention of few queries, D = head_dim, on devices of many
 * cores. Contract in args.h: as attention_split and attention_merge, but for at most 32 pieces, and one piece is the
 * whole attention, whose OUT is that of attention. Besides, heads and tokens lie at multiples of 16 bytes.
 *
 * attention_grouped_<D>_<C>: the same for up to four heads of a group at once, which reads keys and values once for
 * them.
 *
 * attention_texts_<D>_<C>, attention_texts_grouped_<D>_<C> and attention_texts_merge_<D>: the same of several texts.
 *
 * Geometry: a threadgroup of 256 threads for each piece: (splits, heads, tokens or texts), where grouped heads count as
 * one. Merge: one for each head of each token or text: (heads, tokens or texts, 1) of 256 threads.
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

constant constexpr uint THREADS = 256, SIMDGROUPS = THREADS / 32;
constant constexpr uint GROUPED = ATTENTION_GROUPED;

/* Bytes that read_ahead brings. */
constant constexpr uint LINE = 128;

/* Reads the keys or values of a piece ahead, whose newest ones the predecessor may be about to write. */
template <typename Cache, uint D>
static inline void read_head_ahead(device const typename Cache::stored *cache, ulong head, ulong stride, ulong start,
                                   ulong end, uint thread_index) {
  constexpr uint BYTES = D / Cache::BLOCK * Cache::WORDS * sizeof(typename Cache::stored);
  constexpr uint LINES = (BYTES + LINE - 1) / LINE;
  for (ulong i = start * LINES + thread_index; i < end * LINES; i += THREADS) {
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

/* The sums over a team of what its lanes have for each head. A lane gets that of head `lane % HEADS`. */
template <uint HEADS, uint TEAM> static inline float team_sum(thread float *of_head, uint lane) {
#pragma unroll
  for (uint half_of = HEADS / 2; half_of > 0; half_of /= 2) {
    bool upper = lane & half_of;
#pragma unroll
    for (uint h = 0; h < half_of; ++h) {
      float kept = upper ? of_head[h + half_of] : of_head[h], given = upper ? of_head[h] : of_head[h + half_of];
      of_head[h] = kept + simd_shuffle_xor(given, ushort(half_of));
    }
  }
  float sum = of_head[0];
#pragma unroll
  for (uint other = HEADS; other < TEAM; other *= 2) sum += simd_shuffle_xor(sum, ushort(other));
  return sum;
}

/* What a bundle of up to HEADS heads of a query, all of one head of the keys, makes of a piece of them, to `out` as
 * args.h says. `parts` has SIMDGROUPS * HEADS * D floats, `largests` and `all_sums` have SIMDGROUPS * HEADS. */
template <typename Cache, uint D, uint HEADS, typename Out>
static inline void attend_to_piece(device const float *q, device const typename Cache::stored *k,
                                   device const typename Cache::stored *v, thread const Out &out,
                                   constant attention_args &args, uint position, uint window, uint split_length,
                                   uint split, uint bundle, threadgroup float4 *parts, threadgroup float *largests,
                                   threadgroup float *all_sums, uint thread_index, uint simdgroup, uint lane) {
  constexpr uint TEAM = HEADS == 1 ? 8 : D / 8; /* lanes, which share out a head */
  constexpr uint TEAMS = 32 / TEAM, FOURS = D / 4 / TEAM;
  constexpr uint KEYS = HEADS == 1 ? 1 : 2; /* of a team at once */
  uint first = window > 0 && position >= window ? position - window + 1 : 0;
  ulong start = first + ulong(split) * split_length, end = min(start + split_length, ulong(position) + 1);
  uint of_kv_head = args.heads / args.kv_heads, bundles = (of_kv_head + HEADS - 1) / HEADS;
  ulong kv_head = bundle / bundles, first_head = kv_head * of_kv_head + bundle % bundles * HEADS;
  uint heads = min(HEADS, uint((kv_head + 1) * of_kv_head - first_head));
  allow_successor();
  read_head_ahead<Cache, D>(k, kv_head * args.k_head_stride, args.k_token_stride, start, end, thread_index);
  read_head_ahead<Cache, D>(v, kv_head * args.v_head_stride, args.v_token_stride, start, end, thread_index);
  wait_for_predecessor();

  uint element = 4 * (lane % TEAM);
  float4 query[HEADS][FOURS], weighted[HEADS][FOURS];
#pragma unroll
  for (uint h = 0; h < HEADS; ++h) {
    device const float *from = q + (first_head + min(h, heads - 1)) * args.q_head_stride + element;
#pragma unroll
    for (uint i = 0; i < FOURS; ++i) {
      query[h][i] = *(device const float4 *)(from + 4 * TEAM * i);
      weighted[h][i] = float4(0);
    }
  }

  ulong keys = kv_head * args.k_head_stride + element, values = kv_head * args.v_head_stride + element;
  /* Of head `lane % HEADS`. */
  float largest = 0, sum = 0;
  for (ulong j = start + simdgroup * TEAMS; j < end; j += SIMDGROUPS * TEAMS * KEYS) {
    float4 key_fours[KEYS][FOURS], value_fours[KEYS][FOURS];
#pragma unroll
    for (uint x = 0; x < KEYS; ++x) {
      /* Past the last key stands the last one again, without weight. */
      ulong key = min(j + x * SIMDGROUPS * TEAMS + lane / TEAM, end - 1);
#pragma unroll
      for (uint i = 0; i < FOURS; ++i) {
        key_fours[x][i] = Cache::four(k, keys + key * args.k_token_stride + 4 * TEAM * i);
        value_fours[x][i] = Cache::four(v, values + key * args.v_token_stride + 4 * TEAM * i);
      }
    }
    float scores[KEYS];
#pragma unroll
    for (uint x = 0; x < KEYS; ++x) {
      float of_head[HEADS];
#pragma unroll
      for (uint h = 0; h < HEADS; ++h) {
        of_head[h] = 0;
#pragma unroll
        for (uint i = 0; i < FOURS; ++i) of_head[h] += dot(query[h][i], key_fours[x][i]);
      }
      scores[x] = team_sum<HEADS, TEAM>(of_head, lane) * args.scale;
    }
    float before = largest;
    bool any_counts = as_type<uint>(sum) != 0, counts[KEYS];
#pragma unroll
    for (uint x = 0; x < KEYS; ++x) {
      counts[x] = j + x * SIMDGROUPS * TEAMS + lane / TEAM < end && !weightless(scores[x]);
      if (!counts[x]) continue;
      largest = any_counts ? max(largest, scores[x]) : scores[x];
      any_counts = true;
    }
    float rescale = share(before, sum, largest);
    float weights[KEYS];
    sum *= rescale;
#pragma unroll
    for (uint x = 0; x < KEYS; ++x) {
      weights[x] = counts[x] ? precise::exp(scores[x] - largest) : 0;
      sum += weights[x];
    }

#pragma unroll
    for (uint h = 0; h < HEADS; ++h) {
      ushort from = lane / TEAM * TEAM + h;
      float factor = HEADS == 1 ? rescale : simd_shuffle(rescale, from);
#pragma unroll
      for (uint i = 0; i < FOURS; ++i) weighted[h][i] *= factor;
#pragma unroll
      for (uint x = 0; x < KEYS; ++x) {
        float weight = HEADS == 1 ? weights[x] : simd_shuffle(weights[x], from);
        if (as_type<uint>(weight) == 0) continue;
#pragma unroll
        for (uint i = 0; i < FOURS; ++i) weighted[h][i] += value_fours[x][i] * weight;
      }
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
    for (uint h = 0; h < HEADS; ++h) {
      ushort from = lane / TEAM * TEAM + h;
      float my_share = HEADS == 1 ? mine : simd_shuffle(mine, from);
      float their_share = HEADS == 1 ? theirs : simd_shuffle(theirs, from);
#pragma unroll
      for (uint i = 0; i < FOURS; ++i)
        weighted[h][i] =
            weighted[h][i] * my_share + simd_shuffle_xor(weighted[h][i], ushort(other)) * their_share;
    }
  }
  if (lane < TEAM)
#pragma unroll
    for (uint h = 0; h < HEADS; ++h)
#pragma unroll
      for (uint i = 0; i < FOURS; ++i)
        parts[((simdgroup * HEADS + h) * D + element) / 4 + TEAM * i] = weighted[h][i];
  if (lane < HEADS) {
    largests[simdgroup * HEADS + lane] = largest;
    all_sums[simdgroup * HEADS + lane] = sum;
  }

  /* The SIMD-groups. */
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bool whole = args.splits == 1;
#pragma unroll
  for (uint number = thread_index; number < HEADS * D; number += THREADS) {
    uint h = number / D, d = number % D;
    if (h >= heads) break;
    largest = largests[h];
    sum = all_sums[h];
#pragma unroll
    for (uint i = 1; i < SIMDGROUPS; ++i) {
      largest = common_largest(largest, sum, largests[i * HEADS + h], all_sums[i * HEADS + h]);
      sum = as_type<uint>(all_sums[i * HEADS + h]) == 0 ? sum : all_sums[i * HEADS + h];
    }
    float total = 0;
    sum = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) {
      float part = share(largests[i * HEADS + h], all_sums[i * HEADS + h], largest);
      sum += all_sums[i * HEADS + h] * part;
      total += ((threadgroup const float *)parts)[(i * HEADS + h) * D + d] * part;
    }
    ulong head = first_head + h;
    if (whole) {
      out.own(args)[head * args.out_head_stride + d] =
          as_type<uint>(sum) == 0 ? as_type<float>(0x7fc00000u) : total / sum;
      continue;
    }
    device float *row = out.all() + ((ulong(out.number) * args.heads + head) * args.splits + split) * (D + 2);
    row[d] = total;
    if (d == 0) {
      row[D] = largest;
      row[D + 1] = sum;
    }
  }
}

/* An assembler gives a thread the registers that the most threads of a threadgroup leave. With these,
 * ATTENTION_WIDE_RESIDENT threadgroups fit on a core, and those of small heads have more than it would take. */
template <typename Cache, uint D, uint HEADS>
[[kernel, max_total_threads_per_threadgroup(THREADS * (HEADS == 1 && D > 64 ? 3 : 2))]] void
attention_wide(device const float *q [[buffer(ATTENTION_Q)]],
               device const typename Cache::stored *k [[buffer(ATTENTION_K)]],
               device const typename Cache::stored *v [[buffer(ATTENTION_V)]],
               device float *out [[buffer(ATTENTION_OUT)]], constant attention_args &args [[buffer(ATTENTION_ARGS)]],
               uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
               uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 parts[SIMDGROUPS * HEADS * D / 4];
  threadgroup float largests[SIMDGROUPS * HEADS], all_sums[SIMDGROUPS * HEADS];
  uint split = group.x, bundle = group.y, token = group.z;
  token_out to = {out, token};
  attend_to_piece<Cache, D, HEADS>(q + token * args.q_token_stride, k, v, to, args, args.first_position + token,
                                   args.window, args.split_length, split, bundle, parts, largests, all_sums,
                                   thread_index, simdgroup, lane);
}

template <typename Cache, uint D, uint HEADS>
[[kernel, max_total_threads_per_threadgroup(THREADS * (HEADS == 1 && D > 64 ? 3 : 2))]] void
attention_texts(device const uchar *q [[buffer(ATTENTION_Q)]], device const uchar *k [[buffer(ATTENTION_K)]],
                device const uchar *v [[buffer(ATTENTION_V)]], device uchar *out [[buffer(ATTENTION_OUT)]],
                constant attention_texts_args &args [[buffer(ATTENTION_ARGS)]],
                uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 parts[SIMDGROUPS * HEADS * D / 4];
  threadgroup float largests[SIMDGROUPS * HEADS], all_sums[SIMDGROUPS * HEADS];
  uint split = group.x, bundle = group.y;
  constant attention_args &common = args.common;
  constant attention_text &text = args.texts[group.z];
  text_out to = {out, &text, group.z};
  attend_to_piece<Cache, D, HEADS>(
      (device const float *)(q + text.q), (device const typename Cache::stored *)(k + text.k),
      (device const typename Cache::stored *)(v + text.v), to, common, text.position, text.window, text.split_length,
      split, bundle, parts, largests, all_sums, thread_index, simdgroup, lane);
}

/* Puts the pieces of one head of a query together. Groups of threads share out the pieces, and a thread reads its pair
 * of elements of all that its group has at once. `parts` has THREADS. */
template <uint D>
static inline void merge_pieces(device const float *rows, device float *to, uint splits, threadgroup float2 *parts,
                                uint thread_index, uint lane) {
  constexpr uint PAIRS = D / 2, GROUPS = THREADS / PAIRS, MOST = ATTENTION_WIDE_PIECES / GROUPS;
  uint pair = thread_index % PAIRS, group = thread_index / PAIRS;
  float2 values[MOST];
#pragma unroll
  for (uint i = 0; i < MOST; ++i) {
    uint s = group + i * GROUPS;
    values[i] = s < splits ? *(device const float2 *)(rows + s * (D + 2) + 2 * pair) : float2(0);
  }
  /* A lane knows of one piece. */
  float largest = 0, sum = 0;
  if (lane < splits) {
    float2 both = *(device const float2 *)(rows + lane * (D + 2) + D);
    largest = both.x;
    sum = both.y;
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

  float2 total = float2(0);
#pragma unroll
  for (uint i = 0; i < MOST; ++i) total += values[i] * simd_shuffle(mine, ushort(group + i * GROUPS));
  parts[thread_index] = total;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_index >= D) return;
  float result = 0;
#pragma unroll
  for (uint i = 0; i < GROUPS; ++i) result += ((threadgroup const float *)parts)[i * D + thread_index];
  to[thread_index] = as_type<uint>(sum) == 0 ? as_type<float>(0x7fc00000u) : result / sum;
}

template <uint D>
[[kernel]] void attention_wide_merge(device const float *parts [[buffer(ATTENTION_MERGE_PARTS)]],
                                     device float *out [[buffer(ATTENTION_MERGE_OUT)]],
                                     constant attention_args &args [[buffer(ATTENTION_MERGE_ARGS)]],
                                     uint2 group [[threadgroup_position_in_grid]],
                                     uint thread_index [[thread_index_in_threadgroup]],
                                     uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float2 parts_of_pairs[THREADS];
  uint head = group.x, token = group.y;
  merge_pieces<D>(parts + (ulong(token) * args.heads + head) * args.splits * (D + 2),
                  out + token * args.out_token_stride + head * args.out_head_stride, args.splits, parts_of_pairs,
                  thread_index, lane);
}

template <uint D>
[[kernel]] void attention_texts_merge(device const float *parts [[buffer(ATTENTION_MERGE_PARTS)]],
                                      device uchar *out [[buffer(ATTENTION_MERGE_OUT)]],
                                      constant attention_texts_args &args [[buffer(ATTENTION_MERGE_ARGS)]],
                                      uint2 group [[threadgroup_position_in_grid]],
                                      uint thread_index [[thread_index_in_threadgroup]],
                                      uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float2 parts_of_pairs[THREADS];
  uint head = group.x, text = group.y;
  constant attention_args &common = args.common;
  device float *to = (device float *)(out + args.texts[text].out) + head * common.out_head_stride;
  merge_pieces<D>(parts + (ulong(text) * common.heads + head) * common.splits * (D + 2), to, common.splits,
                  parts_of_pairs, thread_index, lane);
}

#define WIDE(NAME, CACHE, D)                                                                                  \
  template [[host_name("attention_wide_" NAME)]] [[kernel]] decltype(attention_wide<CACHE, D, 1>)             \
      attention_wide<CACHE, D, 1>;                                                                            \
  template [[host_name("attention_grouped_" NAME)]] [[kernel]] decltype(attention_wide<CACHE, D, GROUPED>)    \
      attention_wide<CACHE, D, GROUPED>;                                                                      \
  template [[host_name("attention_texts_" NAME)]] [[kernel]] decltype(attention_texts<CACHE, D, 1>)           \
      attention_texts<CACHE, D, 1>;                                                                           \
  template [[host_name("attention_texts_grouped_" NAME)]] [[kernel]]                                          \
      decltype(attention_texts<CACHE, D, GROUPED>) attention_texts<CACHE, D, GROUPED>;
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
