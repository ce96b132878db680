/* The product of one row of activations with weights on devices that copy whole rows into threadgroup memory and
 * multiply matrices of bytes. Contract in args.h; besides, a, norm, normed and b lie at multiples of 16 bytes, and so
 * do the rows of b, whose k weights are multiples of 16 bytes, too. k is a multiple of B::UNIT.
 *
 * Geometry: as many threadgroups as the device has cores, (cores, 1, 1), of 32 MATVEC_PANELS_SIMDGROUPS threads and 32
 * more; short: with MATVEC_PANELS_FEW_SIMDGROUPS. Threadgroup memory: MATVEC_PANELS_MEMORY of args.h. Of paired ones
 * two fit on a core, so that those of the next product are there before this one's have ended.
 *
 * A threadgroup first rounds the activations for itself. Then it takes panels of ROWS rows of b, cut into segments of
 * SEGMENT weights, of which the SIMD-groups share out units of B::UNIT weights. The last SIMD-group copies segments
 * ahead of what the others multiply, and begins before the kernel's predecessor has ended, unless a kernel may write
 * them. It also finds rotations, which are needed at the end alone.
 *
 * A type B of weights has BLOCK of them in BYTES. B::columns is what a lane has of a unit's activations. B::multiply
 * adds the products of a unit, which starts at `rows` in the first row of a panel and PITCH bytes further in each other
 * one, to the sums of rows lane / 4 and lane / 4 + 8: each four lanes have parts of them. */
#ifndef IRON_KERNELS_MATVEC_PANELS_H
#define IRON_KERNELS_MATVEC_PANELS_H

/* The panels of a threadgroup, which lie in tiles `own`. */
template <typename B, uint SIMDGROUPS, uint SEGMENT, uint RING> struct panels {
  enum { SEGMENT_BYTES = SEGMENT / B::BLOCK * B::BYTES, UNIT_BYTES = B::UNIT / B::BLOCK * B::BYTES };
  enum { PITCH = MATVEC_PANELS_PITCH(SEGMENT_BYTES), STAGES = RING / (ROWS * PITCH) };
  enum { UNITS = SEGMENT / B::UNIT / SIMDGROUPS, AT_ONCE = MATVEC_PANELS_AT_ONCE(SIMDGROUPS) };
  static_assert(SEGMENT_BYTES % 16 == 0 && STAGES > 0 && STAGES <= 32, "whole vectors, and 64 barriers at most");
  static_assert(SEGMENT % (B::UNIT * SIMDGROUPS) == 0, "as many units for each SIMD-group");

  typedef row_stages<ROWS, PITCH, STAGES, SIMDGROUPS> stages;
  device const uchar *b;
  ulong stride;
  uint row_bytes, units, segments, last_row;
  uint ahead_panel, ahead_segment; /* what is copied next */

  void place(constant matvec_bytes_args &args, device const uchar *weights) {
    b = weights;
    stride = args.b_row_stride / B::BLOCK * B::BYTES;
    row_bytes = args.k / B::BLOCK * B::BYTES;
    units = args.k / B::UNIT;
    segments = (args.k + SEGMENT - 1) / SEGMENT;
    last_row = (args.gated ? 2 * args.n : args.n) - 1;
    ahead_panel = ahead_segment = 0;
  }

  void copy_next(thread const tiles<ROWS> &own, thread stages &ring, uint lane) {
    if (ahead_panel >= own.count) return;
    uint start = ahead_segment * SEGMENT_BYTES, row = own.row(ahead_panel);
    ring.fill(b + row * stride + start, stride, last_row - row, min(uint(SEGMENT_BYTES), row_bytes - start), lane);
    if (++ahead_segment == segments) {
      ahead_segment = 0;
      ++ahead_panel;
    }
  }

  /* Sums of the panels from `from` up to `to`, to parts [AT_ONCE][SIMDGROUPS][ROWS]. WHOLE: a segment is a whole
   * row, so that a SIMD-group's activations are the same in each. `copies`: this SIMD-group copies for the others. */
  template <bool WHOLE>
  void multiply(thread const tiles<ROWS> &own, thread stages &ring, bool copies, uint from, uint to,
                thread const byte_operands &x, threadgroup float *parts, uint lane, uint simdgroup) {
    typename B::columns columns[UNITS];
    if (WHOLE && !copies)
#pragma unroll
      for (uint i = 0; i < UNITS; ++i) columns[i].load(x, min(simdgroup * UNITS + i, units - 1), lane);
#pragma unroll 1
    for (uint panel = from; panel < to; ++panel) {
      float sums[2] = {0, 0};
#pragma unroll 1
      for (uint segment = 0; segment < (WHOLE ? 1 : segments); ++segment) {
        uint first = (segment * SIMDGROUPS + simdgroup) * UNITS;
        ring.await(copies);
        if (!copies && first < units) {
          threadgroup const uchar *rows = ring.stage() + simdgroup * UNITS * UNIT_BYTES;
#pragma unroll
          for (uint i = 0; i < UNITS; ++i) {
            if (!WHOLE) columns[i].load(x, min(first + i, units - 1), lane);
            float some[2] = {0, 0};
            B::template multiply<PITCH>(rows + i * UNIT_BYTES, columns[i], first + i, lane, some);
            bool exists = i == 0 || first + i < units;
            sums[0] += exists ? some[0] : 0.0f;
            sums[1] += exists ? some[1] : 0.0f;
          }
        }
        ring.release(copies, ahead_panel < own.count);
        if (copies) copy_next(own, ring, lane);
      }
      if (copies) continue;
      threadgroup float *part = parts + (panel % AT_ONCE * SIMDGROUPS + simdgroup) * ROWS + lane / 4;
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        sums[i] += simd_shuffle_xor(sums[i], ushort(1));
        sums[i] += simd_shuffle_xor(sums[i], ushort(2));
        if (lane % 4 == 0) part[8 * i] = sums[i];
      }
    }
  }
};

/* Each thread has EIGHTS eights of activations on their way at a time, and as many behind them. PAIRED: a compiler
 * leaves registers for a second threadgroup on the core. */
template <typename B, uint SIMDGROUPS, uint SEGMENT, uint RING, uint EIGHTS, bool PAIRED>
[[kernel, max_total_threads_per_threadgroup((32 * MATVEC_PANELS_SIMDGROUPS + 32) * (PAIRED ? 2 : 1))]] void
matvec_panels(device const float4 *a [[buffer(MATVEC_BYTES_A)]], device const uchar *b [[buffer(MATVEC_BYTES_B)]],
              device const float4 *norm [[buffer(MATVEC_BYTES_NORM)]],
              device float4 *normed [[buffer(MATVEC_BYTES_NORMED)]],
              device const float *addend [[buffer(MATVEC_BYTES_ADDEND)]],
              device float *product [[buffer(MATVEC_BYTES_PRODUCT)]], device float *out [[buffer(MATVEC_BYTES_OUT)]],
              device const uint *positions [[buffer(MATVEC_BYTES_POSITIONS)]],
              device const float *factors [[buffer(MATVEC_BYTES_FACTORS)]],
              device uchar *first_copy [[buffer(MATVEC_BYTES_FIRST)]],
              device uchar *second_copy [[buffer(MATVEC_BYTES_SECOND)]],
              constant matvec_bytes_args &args [[buffer(MATVEC_BYTES_ARGS)]],
              threadgroup uchar *memory [[threadgroup(0)]], uint group [[threadgroup_position_in_grid]],
              uint groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  typedef panels<B, SIMDGROUPS, SEGMENT, RING> own_panels;
  constexpr uint THREADS = SIMDGROUPS * 32, AT_ONCE = own_panels::AT_ONCE;
  allow_successor();

  uint k = args.k;
  byte_operands x;
  x.place(memory + own_panels::STAGES * ROWS * own_panels::PITCH, k);
  threadgroup float *parts = x.end(k); /* [AT_ONCE][SIMDGROUPS][ROWS] */
  threadgroup float *squares = parts + AT_ONCE * SIMDGROUPS * ROWS;
  threadgroup float2 *turns = (threadgroup float2 *)(squares + SIMDGROUPS); /* [AT_ONCE][ROWS / 2] */
  typename own_panels::stages ring;
  ring.place(memory, (threadgroup ulong *)(turns + AT_ONCE * ROWS / 2));
  tiles<ROWS> own;
  own.place(group, groups, args.n, args.gated);
  own_panels mine;
  mine.place(args, b);
  uint count = own.count;

  bool copies = simdgroup == SIMDGROUPS;
  if (args.written) wait_for_predecessor(); /* the norm's weights, too, which all threads read */
  /* The last threads have the first pairs: they copy, and have nothing to multiply. */
  uint pair = THREADS + 31 - thread_index;
  if (copies) {
    ring.start();
    ring.pass();
#pragma unroll 1
    for (uint i = 0; i < own_panels::STAGES; ++i) mine.copy_next(own, ring, lane);
  }
  float frequency = rotation_frequency_of(args, own, pair);
  /* The weights of the norm for this thread's first activations. */
  constexpr uint EARLY = EIGHTS < 2 ? EIGHTS : 2;
  uint eights = copies ? 0 : k / 8;
  float4 first_norm[EARLY][2];
#pragma unroll
  for (uint i = 0; i < EARLY; ++i) {
    uint eight = i * THREADS + thread_index;
    bool exists = args.has_norm && eight < eights;
    first_norm[i][0] = exists ? norm[2 * eight] : float4(0);
    first_norm[i][1] = exists ? norm[2 * eight + 1] : float4(0);
  }
  wait_for_predecessor();

  float square = 0;
  float4 kept[2] = {float4(0), float4(0)}; /* of what this threadgroup writes to `normed` */
  float4 next_low[EIGHTS], next_high[EIGHTS];
#define LOAD_NEXT(FIRST)                                          \
  _Pragma("unroll") for (uint i = 0; i < EIGHTS; ++i) {           \
    uint eight = (FIRST) + i * THREADS + thread_index;            \
    next_low[i] = eight < eights ? a[2 * eight] : float4(0);      \
    next_high[i] = eight < eights ? a[2 * eight + 1] : float4(0); \
  }
  LOAD_NEXT(0)
#pragma unroll 1
  for (uint first = 0; first < eights; first += EIGHTS * THREADS) {
    float4 low[EIGHTS], high[EIGHTS];
#pragma unroll
    for (uint i = 0; i < EIGHTS; ++i) {
      low[i] = next_low[i];
      high[i] = next_high[i];
    }
    LOAD_NEXT(first + EIGHTS * THREADS)
    if (args.has_norm) {
#pragma unroll
      for (uint i = 0; i < EIGHTS; ++i) {
        uint eight = first + i * THREADS + thread_index;
        square += dot(low[i], low[i]) + dot(high[i], high[i]);
        if (first == 0 && i < EARLY) {
          low[i] *= first_norm[i][0];
          high[i] *= first_norm[i][1];
        } else if (eight < eights) {
          low[i] *= norm[2 * eight];
          high[i] *= norm[2 * eight + 1];
        }
        if (eight / THREADS == group) {
          kept[0] = low[i];
          kept[1] = high[i];
        }
      }
    }
#pragma unroll
    for (uint i = 0; i < EIGHTS; ++i) {
      uint eight = first + i * THREADS + thread_index;
      if (first + i * THREADS + simdgroup * 32 < eights) x.keep(eight, low[i], high[i], eight < eights);
    }
  }
  if (args.has_norm) {
    square = simd_sum(square);
    if (lane == 0 && !copies) squares[simdgroup] = square;
  }
  float first_addend = copies ? 0.0f : first_output_addend(args, own, AT_ONCE, addend, thread_index);
  ring.begin(copies);
  make_rotation(args, own, pair, frequency, positions, factors, turns);

  /* A row's norm is a factor: of the products, for roundings do not depend on it. */
  float factor = 1;
  if (args.has_norm && !copies) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += squares[i];
    factor = precise::rsqrt(total / float(k) + args.eps);
  }
  bool is_whole = mine.segments == 1 && own_panels::UNITS <= 2; /* of more units there would be too many registers */
#pragma unroll 1
  for (uint from = 0; from < count; from += AT_ONCE) {
    uint to = min(count, from + AT_ONCE);
#define MULTIPLY(WHOLE, COPIES) \
  mine.template multiply<WHOLE>(own, ring, COPIES, from, to, x, parts, lane, simdgroup)
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
    /* Each has code of its own where no barrier of all threads is in it. */
    if (copies) MULTIPLY(false, true);
    else if (is_whole) MULTIPLY(true, false);
    else MULTIPLY(false, false);
#else
    if (is_whole) MULTIPLY(true, copies);
    else MULTIPLY(false, copies);
#endif
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (!copies)
      write_outputs<ROWS, SIMDGROUPS>(args, own, from, to, parts, turns, factor, first_addend, addend, product,
                                      out, first_copy, second_copy, thread_index, THREADS);
    if (to == count) break;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (!copies && args.has_norm) {
    uint eight = group * THREADS + thread_index;
    if (eight < eights) {
      normed[2 * eight] = kept[0] * factor;
      normed[2 * eight + 1] = kept[1] * factor;
    }
    for (eight += groups * THREADS; eight < eights; eight += groups * THREADS) {
      normed[2 * eight] = a[2 * eight] * norm[2 * eight] * factor;
      normed[2 * eight + 1] = a[2 * eight + 1] * norm[2 * eight + 1] * factor;
    }
  }
#undef MULTIPLY
#undef LOAD_NEXT
}

#endif
