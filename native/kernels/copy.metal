/* copy_<S>_<D>: a matrix from one type to another. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (width, rows, 1). To q8_0 one SIMD-group for each block, whose
 * lanes have an element each: dispatchThreadgroups (width / 32, rows, 1) of (32, 1, 1) threads. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"
#include "conversions.h"

struct u32 {
  typedef uint bits;
};

template <typename S, typename D>
[[kernel]] void copy(device const typename S::stored *src [[buffer(COPY_SRC)]],
                     device typename D::stored *dst [[buffer(COPY_DST)]],
                     constant copy_args &args [[buffer(COPY_ARGS)]],
                     uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  dst[row * args.dst_row_stride + j] = D::narrow(S::widen(src[row * args.src_row_stride + j]));
}

/* Within one type: the bits as they are. */
template <typename T>
[[kernel]] void copy_bits(device const typename T::bits *src [[buffer(COPY_SRC)]],
                          device typename T::bits *dst [[buffer(COPY_DST)]],
                          constant copy_args &args [[buffer(COPY_ARGS)]],
                          uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  dst[row * args.dst_row_stride + j] = src[row * args.src_row_stride + j];
}

template <typename S>
[[kernel]] void quantize(device const typename S::stored *src [[buffer(COPY_SRC)]],
                         device uchar *dst [[buffer(COPY_DST)]],
                         constant copy_args &args [[buffer(COPY_ARGS)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
  uint block = group.x, row = group.y;
  if (block * 32 >= args.width || row >= args.rows) return;
  float value = S::widen(src[row * args.src_row_stride + block * 32 + lane]);
  quantize_block(value, dst + (row * args.dst_row_stride / 32 + block) * 34, lane);
}

template <typename S>
[[kernel]] void dequantize(device const uchar *src [[buffer(COPY_SRC)]],
                           device float *dst [[buffer(COPY_DST)]],
                           constant copy_args &args [[buffer(COPY_ARGS)]],
                           uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  dst[row * args.dst_row_stride + j] = S::at(src, row * args.src_row_stride + j);
}

#define COPY(NAME, S, D) template [[host_name(NAME)]] [[kernel]] decltype(copy<S, D>) copy<S, D>;
#define QUANTIZE(NAME, S) template [[host_name(NAME)]] [[kernel]] decltype(quantize<S>) quantize<S>;
#define COPY_BITS(NAME, T) template [[host_name(NAME)]] [[kernel]] decltype(copy_bits<T>) copy_bits<T>;

COPY_BITS("copy_f32_f32", f32)
COPY("copy_f32_f16", f32, f16)
COPY("copy_f32_bf16", f32, bf16)
COPY("copy_f16_f32", f16, f32)
COPY_BITS("copy_f16_f16", f16)
COPY("copy_f16_bf16", f16, bf16)
COPY("copy_bf16_f32", bf16, f32)
COPY("copy_bf16_f16", bf16, f16)
COPY_BITS("copy_bf16_bf16", bf16)
COPY_BITS("copy_u32_u32", u32)
QUANTIZE("copy_f32_q8_0", f32)
QUANTIZE("copy_f16_q8_0", f16)
QUANTIZE("copy_bf16_q8_0", bf16)
template [[host_name("copy_q8_0_f32")]] [[kernel]] decltype(dequantize<q8_0>) dequantize<q8_0>;
