/* halves_<X>: rows as halves, each times a power of two. Contract in args.h.
 *
 * Geometry: a threadgroup of 128 threads for each row: (rows, 1, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "plain.h"
#include "blocks.h"
#include "power.h"

constant constexpr uint THREADS = 128;

/* UNIT neighbors of a row, which a thread takes at a time: of numbers so few that a SIMD-group reads whole lines. */
template <typename Reader> struct numbers {
  typedef typename Reader::stored stored;
  enum { UNIT = 4 };
  static device const stored *row_of(device const stored *x, ulong elements) { return x + elements; }
  static float bound(device const stored *row, uint unit, uint width) {
    float4 size = fabs(four_of<Reader>(row + 4 * unit, width - 4 * unit));
    return max(max(size.x, size.y), max(size.z, size.w));
  }
  static void read(device const stored *row, uint unit, uint width, thread float *values) {
    float4 four = four_of<Reader>(row + 4 * unit, width - 4 * unit);
#pragma unroll
    for (uint i = 0; i < 4; ++i) values[i] = four[i];
  }
};

template <typename Block, typename Word> struct blocks {
  typedef Word stored;
  enum { UNIT = 16 };
  static device const Word *row_of(device const Word *x, ulong elements) {
    return x + elements / Block::WEIGHTS * Block::WORDS;
  }
  static float bound(device const Word *row, uint group, uint) {
    float scale, offset, q[16];
    Block::read(block_of<Block>(row, group), group % (Block::WEIGHTS / 16), scale, offset, q);
    return fabs(scale) * float(Block::LARGEST) + fabs(offset);
  }
  static void read(device const Word *row, uint group, uint, thread float *values) {
    float scale, offset;
    Block::read(block_of<Block>(row, group), group % (Block::WEIGHTS / 16), scale, offset, values);
#pragma unroll
    for (uint i = 0; i < 16; ++i) values[i] = scale * values[i] + offset;
  }
};

template <typename Rows>
[[kernel]] void halves(device const typename Rows::stored *x [[buffer(HALVES_X)]],
                       device uint2 *out [[buffer(HALVES_OUT)]], device float *scales [[buffer(HALVES_SCALES)]],
                       constant halves_args &args [[buffer(HALVES_ARGS)]],
                       uint row [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float bounds[THREADS / 32];
  x = Rows::row_of(x, row * args.row_stride);
  constexpr uint UNIT = Rows::UNIT;
  uint units = (args.width + UNIT - 1) / UNIT;
  float bound = 0;
  for (uint unit = thread_index; unit < units; unit += THREADS) bound = max(bound, Rows::bound(x, unit, args.width));
  bound = simd_max(bound);
  if (lane == 0) bounds[simdgroup] = bound;
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < THREADS / 32; ++i) bound = max(bound, bounds[i]);
  float power = power_for(bound);
  if (thread_index == 0) scales[row] = inverse_of_power(power);
  out += ulong(row) * (args.padded / 4);
  device uint4 *pairs = (device uint4 *)out;
  for (uint unit = thread_index; unit < args.padded / UNIT; unit += THREADS) {
    float values[UNIT];
#pragma unroll
    for (uint i = 0; i < UNIT; ++i) values[i] = 0;
    if (unit < units) Rows::read(x, unit, args.width, values);
    uint words[UNIT / 2];
#pragma unroll
    for (uint i = 0; i < UNIT / 2; ++i)
      words[i] = as_type<uint>(half2(half(values[2 * i] * power), half(values[2 * i + 1] * power)));
    if (UNIT == 4) out[unit] = uint2(words[0], words[1]);
#pragma unroll
    for (uint i = 0; i + 4 <= UNIT / 2; i += 4)
      pairs[(unit * UNIT / 2 + i) / 4] = uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
  }
}

#define HALVES(NAME, ...) template [[host_name(NAME)]] [[kernel]] decltype(halves<__VA_ARGS__>) halves<__VA_ARGS__>;

#define DTYPE_FLOAT(id, NAME, name, ...) HALVES("halves_" #name, numbers<name>)
#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  HALVES("halves_" #name, blocks<name, WORD_##alignment>)
#include "dtypes.def"
