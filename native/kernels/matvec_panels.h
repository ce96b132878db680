/* The product of one row of activations with weights on devices that copy whole rows into threadgroup memory and
 * multiply matrices of bytes. Contract in args.h; besides, a, norm, normed and b lie at multiples of 16 bytes, and so
 * do the rows of b, whose k weights are multiples of 16 bytes, too. k is a multiple of B::UNIT.
 *
 * Geometry: as many threadgroups as the device has cores, (cores, 1, 1), of 32 MATVEC_PANELS_SIMDGROUPS threads and 32
 * more; short: with MATVEC_PANELS_FEW_SIMDGROUPS. Threadgroup memory: MATVEC_PANELS_MEMORY of args.h.
 *
 * A threadgroup first rounds the activations for itself. Then it takes panels of ROWS rows of b, cut into segments of
 * SEGMENT weights, of which the SIMD-groups share out units of B::UNIT weights. The last SIMD-group copies segments
 * ahead of what the others multiply, and begins before the kernel's predecessor has ended, unless a kernel may write
 * them.
 *
 * A type B of weights has BLOCK of them in BYTES. B::multiply adds the products of a unit whose first row that is this
 * lane's, lane / 4, starts at `upper`, and the one eight below at `lower`, to both rows' sums: each four lanes have
 * parts of them. */
#ifndef IRON_KERNELS_MATVEC_PANELS_H
#define IRON_KERNELS_MATVEC_PANELS_H

constant constexpr uint ROWS = MATVEC_PANELS_ROWS;

template <typename B, uint SIMDGROUPS, uint SEGMENT, uint RING>
[[kernel, max_total_threads_per_threadgroup(32 * MATVEC_PANELS_SIMDGROUPS + 32)]] void
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
  constexpr uint THREADS = SIMDGROUPS * 32, AT_ONCE = MATVEC_PANELS_AT_ONCE(SIMDGROUPS);
  constexpr uint SEGMENT_BYTES = SEGMENT / B::BLOCK * B::BYTES, UNIT_BYTES = B::UNIT / B::BLOCK * B::BYTES;
  constexpr uint PITCH = MATVEC_PANELS_PITCH(SEGMENT_BYTES), STAGES = RING / (ROWS * PITCH);
  static_assert(SEGMENT_BYTES % 16 == 0 && STAGES > 0 && STAGES <= 32, "whole vectors, and a lane for each barrier");
  static_assert(SEGMENT % (B::UNIT * SIMDGROUPS) == 0, "as many units for each SIMD-group");
  allow_successor();

  uint k = args.k, row_bytes = k / B::BLOCK * B::BYTES, segments = (k + SEGMENT - 1) / SEGMENT;
  ulong stride = args.b_row_stride / B::BLOCK * B::BYTES;
  byte_operands x;
  x.place(memory + STAGES * ROWS * PITCH, k);
  threadgroup float *parts = x.end(k); /* [AT_ONCE][SIMDGROUPS][ROWS] */
  threadgroup float *squares = parts + AT_ONCE * SIMDGROUPS * ROWS;
  threadgroup float2 *turns = (threadgroup float2 *)(squares + SIMDGROUPS); /* [AT_ONCE][ROWS / 2] */
  row_stages<ROWS, PITCH, STAGES, SIMDGROUPS> ring;
  ring.place(memory, (threadgroup ulong *)(turns + AT_ONCE * ROWS / 2));
  tiles<ROWS> mine;
  mine.group = group;
  mine.groups = groups;
  mine.n = args.n;
  mine.gated = args.gated;
  uint count = mine.count(), last_row = (args.gated ? 2 * args.n : args.n) - 1;

  /* Of the SIMD-group that copies: a row for each lane. */
  bool copies = simdgroup == SIMDGROUPS;
  uint ahead_panel = 0, ahead_segment = 0;
#define COPY_NEXT()                                                                                      \
  if (ahead_panel < count) {                                                                             \
    uint start = ahead_segment * SEGMENT_BYTES;                                                          \
    ring.fill(b + min(mine.row(ahead_panel) + lane, last_row) * stride + start, min(SEGMENT_BYTES, row_bytes - start), \
              lane);                                                                                     \
    if (++ahead_segment == segments) {                                                                   \
      ahead_segment = 0;                                                                                 \
      ++ahead_panel;                                                                                     \
    }                                                                                                    \
  }
  if (args.written) wait_for_predecessor(); /* the norm's weights, too, which all threads read */
  if (copies) {
    ring.start(lane);
#pragma unroll 1
    for (uint i = 0; i < STAGES; ++i) {
      COPY_NEXT()
    }
  }

  float first_frequency = copies ? 0.0f : first_rotation_frequency(args, mine, AT_ONCE, thread_index);
  /* The weights of the norm for this thread's first activations, of which it has eight, and EIGHTS of these on their
   * way at a time. */
  constexpr uint EIGHTS = 4, EARLY = 2;
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
#pragma unroll 1
  for (uint first = 0; first < eights; first += EIGHTS * THREADS) {
    float4 low[EIGHTS], high[EIGHTS];
#pragma unroll
    for (uint i = 0; i < EIGHTS; ++i) {
      uint eight = first + i * THREADS + thread_index;
      low[i] = eight < eights ? a[2 * eight] : float4(0);
      high[i] = eight < eights ? a[2 * eight + 1] : float4(0);
    }
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
  threadgroup_barrier(mem_flags::mem_threadgroup);
  /* A row's norm is a factor: of the products, for roundings do not depend on it. */
  float factor = 1;
  if (args.has_norm) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += squares[i];
    factor = precise::rsqrt(total / float(k) + args.eps);
    for (uint four = group * THREADS + thread_index; four < eights * 2; four += groups * THREADS)
      normed[four] = a[four] * norm[four] * factor;
  }
  float first_addend = copies ? 0.0f : first_output_addend(args, mine, AT_ONCE, addend, thread_index);

#pragma unroll 1
  for (uint from = 0; from < count; from += AT_ONCE) {
    uint to = min(count, from + AT_ONCE);
    if (!copies)
      make_rotations(args, mine, from, to, positions, factors, first_frequency, turns, thread_index, THREADS);
#pragma unroll 1
    for (uint panel = from; panel < to; ++panel) {
      float sums[2] = {0, 0};
#pragma unroll 1
      for (uint segment = 0; segment < segments; ++segment) {
        ring.await(copies);
        if (!copies) {
          threadgroup const uchar *upper = ring.stage() + lane / 4 * PITCH;
#pragma unroll 1
          for (uint i = 0; i < SEGMENT / B::UNIT / SIMDGROUPS; ++i) {
            uint own = i * SIMDGROUPS + simdgroup, unit = segment * (SEGMENT / B::UNIT) + own;
            if (unit < k / B::UNIT)
              B::multiply(upper + own * UNIT_BYTES, upper + own * UNIT_BYTES + 8 * PITCH, x, unit, lane, sums);
          }
        }
        ring.release(copies, ahead_panel < count, lane);
        if (copies) {
          COPY_NEXT()
        }
      }
      if (!copies) {
        threadgroup float *part = parts + (panel % AT_ONCE * SIMDGROUPS + simdgroup) * ROWS + lane / 4;
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          sums[i] += simd_shuffle_xor(sums[i], ushort(1));
          sums[i] += simd_shuffle_xor(sums[i], ushort(2));
          if (lane % 4 == 0) part[8 * i] = sums[i];
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (!copies)
      write_outputs<ROWS, SIMDGROUPS>(args, mine, from, to, parts, turns, factor, first_addend, addend, product, out,
                                      first_copy, second_copy, thread_index, THREADS);
    if (to == count) break;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

#endif
