/* copies_<S>_<D>: rows from one type to another in one kernel, on GPUs, where a kernel's start takes longer than its
 * work. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (width, count, 1). To q8_0 one SIMD-group for each block,
 * whose lanes have an element each: dispatchThreadgroups (width / 32, count, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "conversions.h"

#ifdef __HAVE_IRONBRIDGE_ONLY_BY_VALUE__
/* A kernel indexes it. */
template <> struct msl::only_by_value<copies_args> { enum { value = 1 }; };
#endif

static inline device uchar *destination(device uchar *first, device uchar *second, constant copies_row &row) {
  return (row.in_second ? second : first) + row.dst;
}

template <typename S, typename D>
[[kernel]] void copies(device const uchar *src [[buffer(COPIES_SRC)]], device uchar *first [[buffer(COPIES_FIRST)]],
                       device uchar *second [[buffer(COPIES_SECOND)]],
                       constant copies_args &args [[buffer(COPIES_ARGS)]],
                       uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, i = position.y;
  if (j >= args.width || i >= args.count) return;
  device const typename S::stored *from = (device const typename S::stored *)(src + args.rows[i].src);
  device typename D::stored *to = (device typename D::stored *)destination(first, second, args.rows[i]);
  to[j] = D::narrow(S::widen(from[j]));
}

/* Within one type: the bits as they are. */
template <typename T>
[[kernel]] void copies_of_bits(device const uchar *src [[buffer(COPIES_SRC)]],
                               device uchar *first [[buffer(COPIES_FIRST)]],
                               device uchar *second [[buffer(COPIES_SECOND)]],
                               constant copies_args &args [[buffer(COPIES_ARGS)]],
                               uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, i = position.y;
  if (j >= args.width || i >= args.count) return;
  device const typename T::bits *from = (device const typename T::bits *)(src + args.rows[i].src);
  ((device typename T::bits *)destination(first, second, args.rows[i]))[j] = from[j];
}

template <typename S>
[[kernel]] void copies_to_blocks(device const uchar *src [[buffer(COPIES_SRC)]],
                                 device uchar *first [[buffer(COPIES_FIRST)]],
                                 device uchar *second [[buffer(COPIES_SECOND)]],
                                 constant copies_args &args [[buffer(COPIES_ARGS)]],
                                 uint2 group [[threadgroup_position_in_grid]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  uint block = group.x, i = group.y;
  if (block * 32 >= args.width || i >= args.count) return;
  device const typename S::stored *from = (device const typename S::stored *)(src + args.rows[i].src);
  quantize_block(S::widen(from[block * 32 + lane]), destination(first, second, args.rows[i]) + block * 34, lane);
}

template [[host_name("copies_f32_f32")]] [[kernel]] decltype(copies_of_bits<f32>) copies_of_bits<f32>;
template [[host_name("copies_f32_f16")]] [[kernel]] decltype(copies<f32, f16>) copies<f32, f16>;
template [[host_name("copies_f32_q8_0")]] [[kernel]] decltype(copies_to_blocks<f32>) copies_to_blocks<f32>;
