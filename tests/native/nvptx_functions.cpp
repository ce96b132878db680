/* Holds native/msl/nvptx/functions.h against the host's functions of double: prints each function's largest error in
 * units of the last place, and where. A result that is the rounded one has no error. */
#include "functions.h"

extern "C" {
int printf(const char *, ...);
#define DECLARE1(name) double name(double);
#define DECLARE2(name) double name(double, double);
DECLARE1(exp) DECLARE1(exp2) DECLARE1(log) DECLARE1(log2) DECLARE1(log10) DECLARE1(sin) DECLARE1(cos) DECLARE1(tan)
DECLARE1(asin) DECLARE1(acos) DECLARE1(atan) DECLARE1(sinh) DECLARE1(cosh) DECLARE1(tanh) DECLARE1(asinh)
DECLARE1(acosh) DECLARE1(atanh) DECLARE2(pow) DECLARE2(atan2) DECLARE2(fmod) DECLARE2(fdim)
float nextafterf(float, float), ldexpf(float, int), frexpf(float, int *);
int ilogbf(float);
}

static float float_of(uint bits) { return __builtin_bit_cast(float, bits); }

static double error_of(float got, double want) {
  float rounded = (float)want;
  if (got != got || rounded != rounded) return (got != got) == (rounded != rounded) ? 0 : 1e9;
  if (got == rounded) return 0;
  if (__builtin_isinf(got) || __builtin_isinf(rounded)) return 1e9;
  int exponent;
  __builtin_frexp(want, &exponent);
  return __builtin_fabs((double)got - want) / __builtin_ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* Every so many of all floats, and pairs of them: any bits, and bases with exponents that fit. */
enum { STEP = 9973, PAIRS = 300000 };
#define CHECK1(name)                                              \
  {                                                               \
    double worst = 0;                                             \
    float at = 0;                                                 \
    for (ulong bits = 0; bits < 1ul << 32; bits += STEP) {        \
      float x = float_of((uint)bits);                             \
      double error = error_of(msl::name(x), ::name((double)x));   \
      if (error > worst) worst = error, at = x;                   \
    }                                                             \
    printf(#name " %g %a\n", worst, (double)at);                  \
  }
#define CHECK2(name)                                                                     \
  {                                                                                      \
    double worst = 0;                                                                    \
    float at = 0;                                                                        \
    ulong state = 1;                                                                     \
    for (uint i = 0; i < PAIRS; i++) {                                                   \
      state = state * 6364136223846793005ul + 1442695040888963407ul;                     \
      float x = float_of((uint)(state >> 32)), y = float_of((uint)(state >> 7));         \
      if (i & 1) x = (float)(uint)(state >> 35) * 1e-7f, y = (float)(int)(state >> 9) * 1e-8f; \
      double error = error_of(msl::name(x, y), ::name((double)x, (double)y));            \
      if (error > worst) worst = error, at = x;                                          \
    }                                                                                    \
    printf(#name " %g %a\n", worst, (double)at);                                         \
  }

int main() {
  CHECK1(exp) CHECK1(exp2) CHECK1(log) CHECK1(log2) CHECK1(log10) CHECK1(sin) CHECK1(cos) CHECK1(tan) CHECK1(asin)
  CHECK1(acos) CHECK1(atan) CHECK1(sinh) CHECK1(cosh) CHECK1(tanh) CHECK1(asinh) CHECK1(acosh) CHECK1(atanh)
  CHECK2(pow) CHECK2(atan2) CHECK2(fmod) CHECK2(fdim)
  ulong wrong = 0;
  for (ulong bits = 0; bits < 1ul << 32; bits += STEP) {
    float x = float_of((uint)bits);
    if (x != x) continue;
    int mine, theirs;
    wrong += msl::ilogb(x) != ilogbf(x) || msl::nextafter(x, 1.5f) != nextafterf(x, 1.5f);
    for (int exponent = -300; exponent < 300; exponent += 37)
      wrong += msl::ldexp(x, exponent) != ldexpf(x, exponent);
    if (!__builtin_isinf(x)) wrong += msl::frexp(x, mine) != frexpf(x, &theirs) || mine != theirs;
  }
  printf("exact %g 0\n", (double)wrong);
}
