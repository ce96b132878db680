/* Weights and activations that are numbers of their own, one or four at a time as float. */
#ifndef IRON_KERNELS_PLAIN_H
#define IRON_KERNELS_PLAIN_H

/* Four neighbours are read as one packed vector, which is aligned like its elements, so that rows may start
 * anywhere. */
struct f32 {
  typedef float stored;
  static float at(device const float *values, ulong index) { return values[index]; }
  static float4 four(device const float *values) { return float4(*(device const packed_float4 *)values); }
};

struct f16 {
  typedef half stored;
  static float at(device const half *values, ulong index) { return float(values[index]); }
  static float4 four(device const half *values) { return float4(half4(*(device const packed_half4 *)values)); }
};

/* bfloat16 is the upper half of a float. Metal 3.0 has no type of that name. */
struct bf16 {
  typedef ushort stored;
  static float at(device const ushort *values, ulong index) { return as_type<float>(uint(values[index]) << 16); }
  static float4 four(device const ushort *values) {
    return as_type<float4>(uint4(ushort4(*(device const packed_ushort4 *)values)) << 16);
  }
};

/* A score of attention under a soft cap, if there is one. */
static inline float soft_capped(float score, float cap) {
  return cap > 0 ? cap * precise::tanh(precise::divide(score, cap)) : score;
}

/* Four neighbours of which `count` exist, zeros in place of the others. */
template <typename Reader, typename Stored> static inline float4 four_of(device const Stored *values, uint count) {
  if (count >= 4) return Reader::four(values);
  float4 result = float4(0);
  for (uint i = 0; i < count; ++i) result[i] = Reader::at(values, i);
  return result;
}

#endif
