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

/* UNIT neighbors of a row, which a thread takes at a time: of numbers so few that a SIMD-group reads whole lines. A
 * thread reads AT_ONCE of them before it looks at the first. `fetch` reads what takes little room. WHOLE says that no
 * unit ends behind the row, as in rows of blocks. */
template <typename Reader> struct numbers {
  typedef typename Reader::stored stored;
  typedef float4 fetched;
  enum { UNIT = 4, AT_ONCE = 8, ALWAYS_WHOLE = 0 };
  static device const stored *row_of(device const stored *x, ulong elements) { return x + elements; }
  template <bool WHOLE> static void fetch(device const stored *row, uint unit, uint width, thread fetched &four) {
    four = WHOLE ? Reader::four(row + 4 * unit) : four_of<Reader>(row + 4 * unit, width - 4 * unit);
  }
  static float bound(thread const fetched &four) {
    float4 size = fabs(four);
    return max(max(size.x, size.y), max(size.z, size.w));
  }
  static void read(thread const fetched &four, thread float *values) {
#pragma unroll
    for (uint i = 0; i < 4; ++i) values[i] = four[i];
  }
};

template <typename Block, typename Word> struct blocks {
  typedef Word stored;
  struct fetched {
    device const Word *row;
    uint group;
  };
  enum { UNIT = 16, AT_ONCE = 2, ALWAYS_WHOLE = 1 };
  static device const Word *row_of(device const Word *x, ulong elements) {
    return x + elements / Block::WEIGHTS * Block::WORDS;
  }
  template <bool WHOLE> static void fetch(device const Word *row, uint group, uint, thread fetched &of) {
    of.row = row;
    of.group = group;
  }
  static float bound(thread const fetched &of) {
    float scale, offset, q[16];
    Block::read(block_of<Block>(of.row, of.group), of.group % (Block::WEIGHTS / 16), scale, offset, q);
    return fabs(scale) * float(Block::LARGEST) + fabs(offset);
  }
  static void read(thread const fetched &of, thread float *values) {
    float scale, offset;
    Block::read(block_of<Block>(of.row, of.group), of.group % (Block::WEIGHTS / 16), scale, offset, values);
#pragma unroll
    for (uint i = 0; i < 16; ++i) values[i] = scale * values[i] + offset;
  }
};

/* Fetches units `first`, `first` + THREADS and so on; past the last one stands that one again. */
template <typename Rows, bool WHOLE>
static inline void fetch_units(device const typename Rows::stored *x, uint first, uint units, uint width,
                               thread typename Rows::fetched *fetched) {
#pragma unroll
  for (uint i = 0; i < Rows::AT_ONCE; ++i)
    Rows::template fetch<WHOLE>(x, min(first + i * THREADS, units - 1), width, fetched[i]);
}

template <typename Rows> static inline float bound_of_units(thread const typename Rows::fetched *fetched) {
  float bounds[Rows::AT_ONCE], bound = 0;
#pragma unroll
  for (uint i = 0; i < Rows::AT_ONCE; ++i) bounds[i] = Rows::bound(fetched[i]);
#pragma unroll
  for (uint i = 0; i < Rows::AT_ONCE; ++i) bound = max(bound, bounds[i]);
  return bound;
}

/* Writes what was fetched times `power`, and zeros from unit `units` on, up to `padded`. */
template <typename Rows>
static inline void write_units(device uint2 *out, thread const typename Rows::fetched *fetched, uint first, uint units,
                               uint padded, float power) {
  constexpr uint UNIT = Rows::UNIT;
  float values[Rows::AT_ONCE][UNIT];
#pragma unroll
  for (uint i = 0; i < Rows::AT_ONCE; ++i) Rows::read(fetched[i], values[i]);
#pragma unroll
  for (uint i = 0; i < Rows::AT_ONCE; ++i) {
    uint unit = first + i * THREADS, words[UNIT / 2];
    if (unit >= padded) return;
#pragma unroll
    for (uint j = 0; j < UNIT / 2; ++j) {
      half2 pair = half2(half(values[i][2 * j] * power), half(values[i][2 * j + 1] * power));
      words[j] = unit < units ? as_type<uint>(pair) : 0;
    }
    if (UNIT == 4) out[unit] = uint2(words[0], words[1]);
#pragma unroll
    for (uint j = 0; j + 4 <= UNIT / 2; j += 4)
      ((device uint4 *)out)[(unit * UNIT / 2 + j) / 4] = uint4(words[j], words[j + 1], words[j + 2], words[j + 3]);
  }
}

template <typename Rows, bool WHOLE>
static inline void convert(device const typename Rows::stored *x, device uint2 *out, device float *scale,
                           constant halves_args &args, threadgroup float *bounds, uint thread_index, uint lane,
                           uint simdgroup) {
  constexpr uint STEP = Rows::AT_ONCE * THREADS;
  uint units = (args.width + Rows::UNIT - 1) / Rows::UNIT, padded = args.padded / Rows::UNIT;
  typename Rows::fetched kept[Rows::AT_ONCE], fetched[Rows::AT_ONCE];
  fetch_units<Rows, WHOLE>(x, thread_index, units, args.width, kept);
  float bound = bound_of_units<Rows>(kept);
  for (uint first = thread_index + STEP; first < units; first += STEP) {
    fetch_units<Rows, WHOLE>(x, first, units, args.width, fetched);
    bound = max(bound, bound_of_units<Rows>(fetched));
  }
  bound = simd_max(bound);
  if (lane == 0) bounds[simdgroup] = bound;
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < THREADS / 32; ++i) bound = max(bound, bounds[i]);
  float power = power_for(bound);
  if (thread_index == 0) *scale = inverse_of_power(power);
  write_units<Rows>(out, kept, thread_index, units, padded, power);
  for (uint first = thread_index + STEP; first < padded; first += STEP) {
    fetch_units<Rows, WHOLE>(x, first, units, args.width, fetched);
    write_units<Rows>(out, fetched, first, units, padded, power);
  }
}

template <typename Rows>
[[kernel]] void halves(device const typename Rows::stored *x [[buffer(HALVES_X)]],
                       device uint2 *out [[buffer(HALVES_OUT)]], device float *scales [[buffer(HALVES_SCALES)]],
                       constant halves_args &args [[buffer(HALVES_ARGS)]],
                       uint row [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float bounds[THREADS / 32];
  x = Rows::row_of(x, row * args.row_stride);
  out += ulong(row) * (args.padded / 4);
  if (Rows::ALWAYS_WHOLE || args.width % Rows::UNIT == 0)
    convert<Rows, true>(x, out, scales + row, args, bounds, thread_index, lane, simdgroup);
  else
    convert<Rows, false>(x, out, scales + row, args, bounds, thread_index, lane, simdgroup);
}

#define HALVES(NAME, ...) template [[host_name(NAME)]] [[kernel]] decltype(halves<__VA_ARGS__>) halves<__VA_ARGS__>;

#define DTYPE_FLOAT(id, NAME, name, ...) HALVES("halves_" #name, numbers<name>)
#define DTYPE_BLOCK(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  HALVES("halves_" #name, blocks<name, WORD_##alignment>)
#include "dtypes.def"
