/* matvec_joined_<B>_f32: the product of one row of activations with up to three matrices of weights, and what stands
 * behind it in a model: a rotation with copies, a gate or a sum. On GPUs, where a kernel's start takes longer than such
 * work, whose cores are too few or have too little memory for matvec_bytes. Contract in args.h.
 *
 * A SIMD-group does four rows of weights, as in matvec.metal and matvec_blocks.metal. If gated they are two of the gate
 * and the two that are multiplied with them.
 *
 * Geometry: threadgroups of 64 threads, each for 8 rows of weights: (rows / 8, 1, 1), rounded up. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "rotation.h"
#include "sums_of_numbers.h"
#include "sums_of_blocks.h"

constant constexpr uint ROWS = 4;

/* Where the matrices are, and which row of all is each one's first. */
template <typename Stored> struct matrices {
  device const Stored *first, *second, *third;
  uint second_row, third_row;
  device const Stored *row(uint index, ulong stride) const {
    device const Stored *of = index < second_row ? first : index < third_row ? second : third;
    uint start = index < second_row ? 0 : index < third_row ? second_row : third_row;
    return of + (index - start) * stride;
  }
};

/* Numbers of type B, and blocks of it. */
template <typename B> struct numbers {
  typedef typename B::stored stored;
  static ulong stride(constant matvec_bytes_args &args) { return args.b_row_stride; }
  static void sums(device const float *a, device const stored *const thread *rows, uint k, uint lane,
                   thread float (*sums)[ROWS]) {
    sums_of_numbers<f32, B, 1, ROWS>(a, 0, 1, rows, k, lane, sums);
  }
};
template <typename B, typename Word> struct in_blocks {
  typedef Word stored;
  static ulong stride(constant matvec_bytes_args &args) { return args.b_row_stride / B::WEIGHTS * B::WORDS; }
  static void sums(device const float *a, device const stored *const thread *rows, uint k, uint lane,
                   thread float (*sums)[ROWS]) {
    sums_of_blocks<f32, B, 1, ROWS>(a, 0, 1, rows, k, lane, sums);
  }
};

/* Two neighboring outputs and what is done to them. `row`: the first one's; an output that is not there is not
 * written. */
static inline void write_pair(constant matvec_bytes_args &args, uint row, float2 sum, float2 other,
                              device const float *addend, device float *product, device float *out,
                              device const uint *positions, device const float *factors, device uchar *first_copy,
                              device uchar *second_copy) {
  if (args.rotary_dim && row < args.n) { /* n is even */
    if (args.has_addend) sum += float2(addend[row], addend[row + 1]);
    if (row / args.rotary_dim < args.heads) {
      uint i = row % args.rotary_dim / 2;
      float frequency = rotation_frequency(i, args.rotary_dim, args.frequency_base);
      float2 turn = rotation(positions[0], args.frequency_scale, frequency, args.has_factors ? factors[i] : 1.0f);
      sum = float2(sum.x * turn.x - sum.y * turn.y, sum.x * turn.y + sum.y * turn.x);
    }
  }
#pragma unroll
  for (uint j = 0; j < 2; ++j) {
    if (row + j >= args.n) break;
    float value = sum[j];
    if (args.keeps_product) {
      product[row + j] = value;
      if (args.gated) product[args.n + row + j] = other[j];
    }
    if (args.gated) value = precise::divide(value, 1.0f + precise::exp(-value)) * other[j];
    if (args.has_addend && !args.rotary_dim) value += addend[row + j];
    out[row + j] = value;
    if (args.copy_bytes == 4)
      store_rotated((device float *)first_copy, (device float *)second_copy, args, row + j, value);
    else if (args.copy_bytes == 2)
      store_rotated((device half *)first_copy, (device half *)second_copy, args, row + j, value);
  }
}

template <typename B>
[[kernel]] void matvec_joined(device const float *a [[buffer(MATVEC_BYTES_A)]],
                              device const typename B::stored *b [[buffer(MATVEC_BYTES_B)]],
                              device const float *addend [[buffer(MATVEC_BYTES_ADDEND)]],
                              device float *product [[buffer(MATVEC_BYTES_PRODUCT)]],
                              device float *out [[buffer(MATVEC_BYTES_OUT)]],
                              device const uint *positions [[buffer(MATVEC_BYTES_POSITIONS)]],
                              device const float *factors [[buffer(MATVEC_BYTES_FACTORS)]],
                              device uchar *first_copy [[buffer(MATVEC_BYTES_FIRST)]],
                              device uchar *second_copy [[buffer(MATVEC_BYTES_SECOND)]],
                              device const typename B::stored *second_b [[buffer(MATVEC_JOINED_SECOND_B)]],
                              device const typename B::stored *third_b [[buffer(MATVEC_JOINED_THIRD_B)]],
                              constant matvec_joined_args &args [[buffer(MATVEC_JOINED_ARGS)]],
                              uint position [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                              uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constant matvec_bytes_args &of = args.product;
  bool gated = of.gated != 0;
  uint outputs = gated ? ROWS / 2 : ROWS, first = (position * 2 + simdgroup) * outputs;
  if (first >= of.n) return;

  /* Past the last row stands the last one again; its sums are not written. */
  matrices<typename B::stored> all = {b, second_b, third_b, args.second_row, args.third_row};
  ulong stride = B::stride(of);
  device const typename B::stored *rows[ROWS];
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) {
    bool is_other = gated && j >= ROWS / 2;
    uint row = min(first + (is_other ? j - ROWS / 2 : j), of.n - 1);
    rows[j] = all.row(is_other ? of.n + row : row, stride);
  }
  float sums[1][ROWS];
  B::sums(a, rows, of.k, lane, sums);
#pragma unroll
  for (uint j = 0; j < ROWS; ++j) sums[0][j] = simd_sum(sums[0][j]);

  float2 low = float2(sums[0][0], sums[0][1]), high = float2(sums[0][2], sums[0][3]);
  if (lane < (gated ? 1 : 2))
    write_pair(of, first + 2 * lane, lane == 0 ? low : high, high, addend, product, out, positions, factors, first_copy,
               second_copy);
}

#define JOINED(NAME, B) template [[host_name(#NAME)]] [[kernel]] decltype(matvec_joined<B>) matvec_joined<B>;
typedef numbers<f32> numbers_f32;
typedef numbers<f16> numbers_f16;
typedef numbers<bf16> numbers_bf16;
#define DTYPE_FLOAT(id, NAME, name, ...) JOINED(matvec_joined_##name##_f32, numbers_##name)
#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  typedef in_blocks<name, WORD_##alignment> blocks_##name;                  \
  JOINED(matvec_joined_##name##_f32, blocks_##name)
#include "dtypes.def"
