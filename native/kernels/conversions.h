/* How a number of one type becomes one of another. */
#ifndef IRON_KERNELS_CONVERSIONS_H
#define IRON_KERNELS_CONVERSIONS_H

struct f32 {
  typedef float stored;
  typedef uint bits;
  static float widen(float value) { return value; }
  static float narrow(float value) { return value; }
};

struct f16 {
  typedef half stored;
  typedef ushort bits;
  static float widen(half value) { return float(value); }
  static half narrow(float value) { return half(value); }
};

/* The upper half of a float. Metal 3.0 has no type of that name. */
struct bf16 {
  typedef ushort stored;
  typedef ushort bits;
  static float widen(ushort value) { return as_type<float>(uint(value) << 16); }
  /* To nearest, ties to even. A NaN is recognised by its bits, which fast math leaves alone, and stays one. */
  static ushort narrow(float value) {
    uint bits = as_type<uint>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return ushort(bits >> 16 | 0x40u);
    return ushort((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
};

/* Writes a block of Q8_0 by a SIMD-group, each of whose lanes has one of its elements. */
static inline void quantize_block(float value, device uchar *to, uint lane) {
  uint magnitude = as_type<uint>(value) & 0x7fffffffu;
  uint largest = simd_max(magnitude); /* floats without a sign are in the order of their bits */
  bool finite = largest < 0x7f800000u;
  float scale = as_type<float>(largest) / 127.0f;
  float inverse = scale >= 0x1p-126f ? 1.0f / scale : 0.0f;
  to[2 + lane] = finite ? as_type<uchar>(char(int(round(value * inverse)))) : uchar(0);
  if (lane < 2) to[lane] = uchar((finite ? as_type<ushort>(half(scale)) : ushort(0x7e00)) >> (8 * lane));
}

#endif
