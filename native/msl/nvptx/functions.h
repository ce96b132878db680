/* What math.h takes from the target: on NVIDIA's GPUs code of our own, for there is no C library, and libdevice is part
 * of the CUDA toolkit. Plain C++, so that the host can check it. Errors are within those of the Metal Shading Language
 * Specification, section 8.4. exp, which attention and activations use, computes in float. The others go through
 * double, whose error is rounded away. Series and reductions: Abramowitz & Stegun, chapter 4. */
#ifndef MSL_FUNCTIONS_H
#define MSL_FUNCTIONS_H

#include "../types.h"

namespace msl {

constexpr float infinity = __builtin_inff(), not_a_number = __builtin_nanf("");

MSL_INLINE float power_of_two(int exponent) { return __builtin_bit_cast(float, (uint)(exponent + 127) << 23); }

/* x 2^exponent, rounded once. */
MSL_INLINE float ldexp(float x, int exponent) {
  int within = exponent > 400 ? 400 : exponent < -400 ? -400 : exponent;
  return (float)((double)x * __builtin_bit_cast(double, (ulong)(within + 1023) << 52));
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with ln 2 in two parts. */
MSL_INLINE float exp(float x) {
  float n = __builtin_rintf(x * 1.44269504f);
  float r = __builtin_fmaf(n, -0x1.62e400p-1f, x);
  r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
  float p = 0.00139262504f;
  p = __builtin_fmaf(p, r, 0.00836323295f);
  p = __builtin_fmaf(p, r, 0.0416665524f);
  p = __builtin_fmaf(p, r, 0.166665763f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  /* In two factors, so that neither the largest nor a subnormal result leaves the range on the way. */
  int whole = (int)(n < -160.0f ? -160.0f : n > 160.0f ? 160.0f : n), first = whole / 2;
  float result = p * power_of_two(first) * power_of_two(whole - first);
  return x > 88.8f ? infinity : x < -104.0f ? 0.0f : result;
}

/* 2^x for |x| < 1000. */
MSL_INLINE double exp2_of(double x) {
  double n = __builtin_rint(x), r = (x - n) * 0.69314718055994530942, p = 1.0 / 39916800;
  const double divisors[] = {3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1};
  _Pragma("unroll") for (int i = 0; i < 11; i++) p = p * r + 1.0 / divisors[i];
  return p * __builtin_bit_cast(double, (ulong)((long)n + 1023) << 52);
}
/* The logarithm to base 2 of a positive finite number. */
MSL_INLINE double log2_of(double x) {
  ulong bits = __builtin_bit_cast(ulong, x);
  long exponent = (long)(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xffffffffffffful) | 0x3ff0000000000000ul);
  if (m > 1.41421356237309504880) m *= 0.5, exponent++;
  /* log m = 2 artanh((m - 1) / (m + 1)). */
  double s = (m - 1) / (m + 1), z = s * s, p = 1.0 / 21;
  _Pragma("unroll") for (int i = 19; i > 0; i -= 2) p = p * z + 1.0 / i;
  return (double)exponent + p * s * 2.88539008177792681472;
}
MSL_INLINE float rounded(double x) { return (float)x; }

MSL_INLINE float exp2(float x) {
  if (x != x) return x;
  return x > 129.0f ? infinity : x < -151.0f ? 0.0f : rounded(exp2_of(x));
}
MSL_INLINE float log_by(float x, double scale) {
  if (x > 0.0f && x != infinity) return rounded(log2_of(x) * scale);
  return x == 0.0f ? -infinity : x == infinity ? x : not_a_number;
}
MSL_INLINE float log(float x) { return log_by(x, 0.69314718055994530942); }
MSL_INLINE float log2(float x) { return log_by(x, 1.0); }
MSL_INLINE float log10(float x) { return log_by(x, 0.30102999566398119521); }

MSL_INLINE float pow(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return not_a_number;
  bool whole = y == __builtin_truncf(y), odd = whole && __builtin_fabsf(y) < 16777216.0f && ((long)y & 1) != 0;
  float size = __builtin_fabsf(x), result;
  if (size == 0.0f) result = y > 0.0f ? 0.0f : infinity;
  else if (size == 1.0f) result = 1.0f;
  else if (size == infinity) result = y > 0.0f ? infinity : 0.0f;
  else if (y == infinity || y == -infinity) result = (size > 1.0f) == (y > 0.0f) ? infinity : 0.0f;
  else {
    double power = (double)y * log2_of(size);
    result = power > 129.0 ? infinity : power < -151.0 ? 0.0f : rounded(exp2_of(power));
  }
  if (__builtin_signbit(x) && size != 0.0f && size != infinity && !whole) return not_a_number;
  return __builtin_signbit(x) && odd ? -result : result;
}

/* The product of 64-bit numbers, upper half. */
MSL_INLINE ulong upper_product(ulong a, ulong b) { return (ulong)((unsigned __int128)a * b >> 64); }

/* x minus the nearest multiple of pi / 2, and which multiple, modulo 4. */
MSL_INLINE double reduced(float x, int &quadrant) {
  double size = __builtin_fabs((double)x), r;
  ulong n;
  if (size < 1073741824.0) {
    double whole = __builtin_rint(size * 0.63661977236758134308);
    r = __builtin_fma(whole, -0x1.921fb54442d18p+0, size);
    r = __builtin_fma(whole, -0x1.1a62633145c07p-54, r);
    n = (ulong)whole;
  } else {
    /* Payne & Hanek 1983: of 2 / pi only those bits matter that the exponent does not shift out. */
    const ulong two_over_pi[] = {0xa2f9836e4e441529ul, 0xfc2757d1f534ddc0ul, 0xdb6295993c439041ul,
                                 0xfe5163abdebbc561ul};
    uint bits = __builtin_bit_cast(uint, x);
    int exponent = (int)(bits >> 23 & 255) - 150; /* size = mantissa 2^exponent, exponent >= 7 */
    ulong mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint skip = (uint)exponent - 2; /* bits that only make multiples of 4 */
    ulong word[2];
    _Pragma("unroll") for (uint i = 0; i < 2; i++) {
      uint at = skip / 64 + i, shift = skip % 64;
      ulong high = at == 0 ? two_over_pi[0] : at == 1 ? two_over_pi[1] : two_over_pi[2];
      ulong low = at == 0 ? two_over_pi[1] : at == 1 ? two_over_pi[2] : two_over_pi[3];
      word[i] = shift == 0 ? high : high << shift | low >> (64 - shift);
    }
    /* A quarter of the multiple, modulo 1, in 64 bits: the two upper ones are the quadrant. */
    ulong fraction = mantissa * word[0] + upper_product(mantissa, word[1]);
    n = fraction >> 62;
    long rest = (long)(fraction << 2);
    n += (ulong)(rest < 0);
    r = (double)rest * 0x1p-64 * 1.57079632679489661923;
  }
  quadrant = (int)(n & 3);
  if (x < 0.0f) quadrant = (4 - quadrant) & 3, r = -r;
  return r;
}
MSL_INLINE double sine_of(double r) {
  double z = r * r, p = -1.0 / 39916800;
  p = p * z + 1.0 / 362880, p = p * z - 1.0 / 5040, p = p * z + 1.0 / 120, p = p * z - 1.0 / 6;
  return r + r * z * p;
}
MSL_INLINE double cosine_of(double r) {
  double z = r * r, p = 1.0 / 479001600;
  p = p * z - 1.0 / 3628800, p = p * z + 1.0 / 40320, p = p * z - 1.0 / 720, p = p * z + 1.0 / 24;
  return 1.0 - z * 0.5 + z * z * p;
}
MSL_INLINE float sine(float x, int ahead) {
  if (!(__builtin_fabsf(x) < infinity)) return not_a_number;
  int quadrant;
  double r = reduced(x, quadrant);
  quadrant += ahead;
  double value = quadrant & 1 ? cosine_of(r) : sine_of(r);
  return rounded(quadrant & 2 ? -value : value);
}
MSL_INLINE float sin(float x) { return x == 0.0f ? x : sine(x, 0); }
MSL_INLINE float cos(float x) { return sine(x, 1); }
MSL_INLINE float tan(float x) {
  if (!(__builtin_fabsf(x) < infinity)) return not_a_number;
  if (x == 0.0f) return x;
  int quadrant;
  double r = reduced(x, quadrant), s = sine_of(r), c = cosine_of(r);
  return rounded(quadrant & 1 ? -c / s : s / c);
}

/* The angle of the point (x, y), x >= 0, of which one is positive. Halved twice, until the series converges. */
MSL_INLINE double angle_of(double y, double x) {
  bool steep = y > x;
  double t = steep ? x / y : y / x;
  t = t / (1.0 + __builtin_sqrt(1.0 + t * t));
  t = t / (1.0 + __builtin_sqrt(1.0 + t * t));
  double z = t * t, p = 1.0 / 21;
  _Pragma("unroll") for (int i = 19; i > 0; i -= 2) p = 1.0 / i - p * z;
  double angle = 4.0 * t * p;
  return steep ? 1.57079632679489661923 - angle : angle;
}
MSL_INLINE float atan2(float y, float x) {
  if (x != x || y != y) return not_a_number;
  double height = __builtin_fabs((double)y), width = __builtin_fabs((double)x), angle;
  if (height == 0.0) angle = 0.0;
  else if (height == (double)infinity && width == (double)infinity) angle = 0.78539816339744830962;
  else if (width == (double)infinity) angle = 0.0;
  else if (height == (double)infinity) angle = 1.57079632679489661923;
  else angle = angle_of(height, width);
  if (__builtin_signbit(x)) angle = 3.14159265358979323846 - angle;
  return __builtin_copysignf(rounded(angle), y);
}
MSL_INLINE float atan(float x) { return atan2(x, 1.0f); }
MSL_INLINE float asin(float x) {
  double size = __builtin_fabs((double)x);
  if (!(size <= 1.0)) return not_a_number;
  if (size == 0.0) return x;
  return __builtin_copysignf(rounded(angle_of(size, __builtin_sqrt((1.0 - size) * (1.0 + size)))), x);
}
MSL_INLINE float acos(float x) {
  double size = __builtin_fabs((double)x);
  if (!(size <= 1.0)) return not_a_number;
  double angle = size == 1.0 ? 0.0 : angle_of(__builtin_sqrt((1.0 - size) * (1.0 + size)), size);
  return rounded(x < 0.0f ? 3.14159265358979323846 - angle : angle);
}

/* Hyperbolic functions. Nearer to 0 than this all but cosh are their argument, to half a unit in the last place. */
constexpr float small = 0x1p-12f;
MSL_INLINE double exp_of(double x) { return exp2_of(x * 1.44269504088896340736); }
MSL_INLINE double log_of(double x) { return log2_of(x) * 0.69314718055994530942; }
MSL_INLINE float sinh(float x) {
  float size = __builtin_fabsf(x);
  if (!(size >= small)) return x;
  if (size > 90.0f) return __builtin_copysignf(infinity, x);
  double e = exp_of(size);
  return __builtin_copysignf(rounded((e - 1.0 / e) * 0.5), x);
}
MSL_INLINE float cosh(float x) {
  float size = __builtin_fabsf(x);
  if (size != size) return x;
  if (size > 90.0f) return infinity;
  double e = exp_of(size);
  return rounded((e + 1.0 / e) * 0.5);
}
MSL_INLINE float tanh(float x) {
  float size = __builtin_fabsf(x);
  if (!(size >= small)) return x;
  if (size > 20.0f) return __builtin_copysignf(1.0f, x);
  double e = exp_of(2.0 * size);
  return __builtin_copysignf(rounded((e - 1.0) / (e + 1.0)), x);
}
MSL_INLINE float asinh(float x) {
  float size = __builtin_fabsf(x);
  if (!(size >= small) || size == infinity) return x;
  double d = size;
  return __builtin_copysignf(rounded(log_of(d + __builtin_sqrt(d * d + 1.0))), x);
}
MSL_INLINE float acosh(float x) {
  if (!(x >= 1.0f)) return not_a_number;
  if (x == infinity) return x;
  double d = x;
  return rounded(log_of(d + __builtin_sqrt((d - 1.0) * (d + 1.0))));
}
MSL_INLINE float atanh(float x) {
  float size = __builtin_fabsf(x);
  if (size > 1.0f) return not_a_number;
  if (!(size >= small)) return x;
  if (size == 1.0f) return __builtin_copysignf(infinity, x);
  double d = size;
  return __builtin_copysignf(rounded(0.5 * log_of((1.0 + d) / (1.0 - d))), x);
}

MSL_INLINE float fdim(float x, float y) { return x != x || y != y ? not_a_number : x > y ? x - y : 0.0f; }
MSL_INLINE float nextafter(float x, float y) {
  if (x != x || y != y) return not_a_number;
  if (x == y) return y;
  if (x == 0.0f) return __builtin_copysignf(0x1p-149f, y);
  uint bits = __builtin_bit_cast(uint, x);
  return __builtin_bit_cast(float, (x < y) == (x > 0.0f) ? bits + 1 : bits - 1);
}
/* The mantissa as a whole number, which is not 0, and its exponent. */
MSL_INLINE ulong mantissa_of(float x, int &exponent) {
  uint bits = __builtin_bit_cast(uint, x);
  exponent = (int)(bits >> 23 & 255);
  ulong mantissa = bits & 0x7fffffu;
  if (exponent == 0) exponent = 1;
  else mantissa |= 0x800000u;
  exponent -= 150;
  return mantissa;
}
MSL_INLINE float frexp(float x, int &exponent) {
  exponent = 0;
  if (x == 0.0f || !(__builtin_fabsf(x) < infinity)) return x;
  ulong mantissa = mantissa_of(x, exponent);
  int bits = 64 - __builtin_clzll(mantissa);
  exponent += bits;
  return __builtin_copysignf((float)mantissa * power_of_two(-bits), x);
}
MSL_INLINE int ilogb(float x) {
  if (x == 0.0f || x != x) return -2147483647 - 1;
  if (__builtin_fabsf(x) == infinity) return 2147483647;
  int exponent;
  ulong mantissa = mantissa_of(x, exponent);
  return exponent + 63 - __builtin_clzll(mantissa);
}
/* Exact: a remainder of whole numbers, 32 bits of the exponents' difference at a time. */
MSL_INLINE float fmod(float x, float y) {
  float size = __builtin_fabsf(x), divisor = __builtin_fabsf(y);
  if (x != x || y != y || divisor == 0.0f || size == infinity) return not_a_number;
  if (size < divisor) return x;
  int exponent, divisor_exponent;
  ulong rest = mantissa_of(size, exponent), by = mantissa_of(divisor, divisor_exponent);
  for (int shift = exponent - divisor_exponent; shift > 0; shift -= 32)
    rest = (rest % by) << (shift < 32 ? shift : 32);
  rest %= by;
  return __builtin_copysignf(ldexp((float)rest, divisor_exponent), x);
}

}

#endif
