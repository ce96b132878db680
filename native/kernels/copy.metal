/* copy_<S>_<D>: a matrix from one type to another. Contract in args.h.
 *
 * Geometry: one thread for each element: dispatchThreads (width, rows, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

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

#define COPY(NAME, S, D) template [[host_name(NAME)]] [[kernel]] decltype(copy<S, D>) copy<S, D>;
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
