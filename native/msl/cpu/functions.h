/* What math.h takes from the target: on the CPU the host's C library. */
#ifndef MSL_FUNCTIONS_H
#define MSL_FUNCTIONS_H

#include "../types.h"

namespace msl {

#define MSL_FUNCTION1(name) MSL_INLINE float name(float x) { return __builtin_##name##f(x); }
MSL_FUNCTION1(exp)
MSL_FUNCTION1(exp2)
MSL_FUNCTION1(log)
MSL_FUNCTION1(log2)
MSL_FUNCTION1(log10)
MSL_FUNCTION1(sin)
MSL_FUNCTION1(cos)
MSL_FUNCTION1(tan)
MSL_FUNCTION1(asin)
MSL_FUNCTION1(acos)
MSL_FUNCTION1(atan)
MSL_FUNCTION1(sinh)
MSL_FUNCTION1(cosh)
MSL_FUNCTION1(tanh)
MSL_FUNCTION1(asinh)
MSL_FUNCTION1(acosh)
MSL_FUNCTION1(atanh)
#undef MSL_FUNCTION1
#define MSL_FUNCTION2(name) MSL_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); }
MSL_FUNCTION2(pow)
MSL_FUNCTION2(atan2)
MSL_FUNCTION2(nextafter)
MSL_FUNCTION2(fmod)
MSL_FUNCTION2(fdim)
#undef MSL_FUNCTION2
MSL_INLINE float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
MSL_INLINE float frexp(float x, int &exponent) { return __builtin_frexpf(x, &exponent); }
MSL_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }

}

#endif
