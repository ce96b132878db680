/* accumulate_<T>. Contract in args.h.
 *
 * Geometry: one thread for each element of c: dispatchThreads (n, m, batch), threadgroups of (32, 8, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

template <typename T>
[[kernel]] void accumulate(device const T *product [[buffer(ACCUMULATE_PRODUCT)]],
                           device const T *bias [[buffer(ACCUMULATE_BIAS)]],
                           device T *c [[buffer(ACCUMULATE_C)]],
                           constant accumulate_args &args [[buffer(ACCUMULATE_ARGS)]],
                           uint3 position [[thread_position_in_grid]]) {
  uint j = position.x, i = position.y;
  ulong z = position.z;
  if (j >= args.n || i >= args.m || z >= args.batch) return;
  device T *to = c + z * args.c_batch_stride + i * args.c_row_stride + j;
  float sum = args.alpha * float(product[(z * args.m + i) * args.n + j]);
  if (args.beta != 0) sum += args.beta * float(*to);
  if (args.has_bias) sum += float(bias[j]);
  *to = T(sum);
}

#define ACCUMULATE(NAME, T) template [[host_name(NAME)]] [[kernel]] decltype(accumulate<T>) accumulate<T>;

ACCUMULATE("accumulate_f32", float)
ACCUMULATE("accumulate_f16", half)
