/* attention_<C>: causal grouped-query attention over a cache. Contract in args.h.
 *
 * Geometry: one SIMD-group for each head of each token: dispatchThreadgroups (heads, tokens, 1) of (32, 1, 1) threads.
 *
 * The lanes share out a head's dimensions. Keys are visited one after the other; whenever a larger score turns up, the
 * sums so far are rescaled to it (Milakov & Gimelshein 2018, arXiv:1805.02867). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"

constant constexpr uint LANES = 32;
constant constexpr uint DIMENSIONS_PER_LANE = 256 / LANES; /* the largest head_dim */

template <typename Stored, typename Reader>
[[kernel]] void attention(device const float *q [[buffer(ATTENTION_Q)]],
                          device const Stored *k [[buffer(ATTENTION_K)]],
                          device const Stored *v [[buffer(ATTENTION_V)]],
                          device float *out [[buffer(ATTENTION_OUT)]],
                          constant attention_args &args [[buffer(ATTENTION_ARGS)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  uint head = group.x, token = group.y;
  if (head >= args.heads || token >= args.tokens) return;
  uint kv_head = head / (args.heads / args.kv_heads);
  device const float *from = q + token * args.q_token_stride + head * args.q_head_stride;
  device float *to = out + token * args.out_token_stride + head * args.out_head_stride;

  float query[DIMENSIONS_PER_LANE], weighted[DIMENSIONS_PER_LANE];
  for (uint i = 0; i < DIMENSIONS_PER_LANE; ++i) {
    uint d = lane + i * LANES;
    query[i] = d < args.head_dim ? from[d] : 0.0f;
    weighted[i] = 0;
  }

  uint position = args.first_position + token;
  uint first = args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
  bool weighs = false; /* whether a key had any weight so far */
  float largest = 0, sum = 0;
  for (uint j = first; j <= position; ++j) {
    ulong key = kv_head * args.k_head_stride + j * args.k_token_stride;
    float score = 0;
    for (uint i = 0; i < DIMENSIONS_PER_LANE; ++i) {
      uint d = lane + i * LANES;
      if (d < args.head_dim) score += query[i] * Reader::at(k, key + d);
    }
    score = soft_capped(simd_sum(score) * args.scale, args.softcap);

    /* A score of minus infinity is no weight. Compared as bits, which fast math leaves alone. */
    if (as_type<uint>(score) == 0xff800000u) continue;

    float before = largest;
    largest = weighs ? max(before, score) : score;
    float rescale = weighs ? precise::exp(before - largest) : 0.0f;
    weighs = true;
    float weight = precise::exp(score - largest);
    sum = sum * rescale + weight;
    ulong value = kv_head * args.v_head_stride + j * args.v_token_stride;
    for (uint i = 0; i < DIMENSIONS_PER_LANE; ++i) {
      uint d = lane + i * LANES;
      if (d < args.head_dim) weighted[i] = weighted[i] * rescale + weight * Reader::at(v, value + d);
    }
  }

  for (uint i = 0; i < DIMENSIONS_PER_LANE; ++i) {
    uint d = lane + i * LANES;
    if (d < args.head_dim) to[d] = weighs ? weighted[i] / sum : as_type<float>(0x7fc00000u);
  }
}

#define ATTENTION(NAME, STORED, READER) \
  template [[host_name(NAME)]] [[kernel]] decltype(attention<STORED, READER>) attention<STORED, READER>;

ATTENTION("attention_f32", float, f32)
ATTENTION("attention_f16", half, f16)
ATTENTION("attention_bf16", ushort, bf16)
ATTENTION("attention_q8_0", uchar, q8_0)
