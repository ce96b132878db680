/* The product of one row of activations with weights on devices of many cores, with what stands before and behind it in
 * a model. Contract in args.h; besides, a, norm, normed and b lie at multiples of 16 bytes, and so do the rows of b,
 * whose k weights are multiples of 16 bytes, too.
 *
 * Geometry: as many threadgroups as the device has cores, (cores, 1, 1), of 32 MATVEC_BYTES_SIMDGROUPS threads; short:
 * of 32 MATVEC_BYTES_FEW_SIMDGROUPS. Threadgroup memory: MATVEC_BYTES_MEMORY of args.h, or MATVEC_NUMBERS_MEMORY.
 *
 * A threadgroup first copies the activations for itself, in the form that the type of weights wants. Then it takes
 * tiles of ROWS rows of b, cut into segments of 32 B::LANE weights, of which a lane multiplies B::LANE of each row.
 * Each SIMD-group has a ring of segments of its own, which it fills ahead of what it multiplies. B::EARLY segments are
 * copied before the kernel's predecessor has ended, unless a kernel may write them. More would stand in the way of the
 * activations, which all threads wait for.
 *
 * A type B of weights has BLOCK of them in BYTES. B::row is the activations in threadgroup memory, from place() to
 * end(); keep<B>() writes four neighbors, called by whole SIMD-groups with neighboring fours; at() is what a lane
 * multiplies. B::times is the product of lane `lane` in a segment that starts `byte` bytes behind `from`. */
#ifndef IRON_KERNELS_MATVEC_RING_H
#define IRON_KERNELS_MATVEC_RING_H

constant constexpr uint ROWS = MATVEC_BYTES_ROWS, TILES = MATVEC_BYTES_TILES;

template <typename B, uint SIMDGROUPS, uint STAGES>
[[kernel, max_total_threads_per_threadgroup(32 * MATVEC_BYTES_SIMDGROUPS)]] void
matvec_ring(device const float4 *a [[buffer(MATVEC_BYTES_A)]], device const uchar *b [[buffer(MATVEC_BYTES_B)]],
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
  constexpr uint THREADS = SIMDGROUPS * 32;
  constexpr uint SEGMENT = 32 * B::LANE / B::BLOCK * B::BYTES;         /* bytes of a row */
  constexpr uint VECTORS = (SEGMENT + 15) / 16;                       /* of 16 bytes that it lies in */
  constexpr uint COPIES = (ROWS * VECTORS + 31) / 32, SLOT = ROWS * VECTORS;
  /* A segment starts at a multiple of 16 bytes or 8 behind it, and then also ends there. */
  static_assert(SEGMENT % 8 == 0 && (SEGMENT % 16 == 0 || VECTORS * 16 == SEGMENT + 8), "whole vectors");
  constexpr uint EARLY = B::EARLY < STAGES ? B::EARLY : STAGES;
  allow_successor();

  uint k = args.k, parts_of_row = k / B::LANE, row_bytes = k / B::BLOCK * B::BYTES;
  uint segments = (k + 32 * B::LANE - 1) / (32 * B::LANE);
  ulong stride = args.b_row_stride / B::BLOCK * B::BYTES;
  threadgroup uint4 *ring = (threadgroup uint4 *)memory + simdgroup * STAGES * SLOT;
  typename B::row x;
  x.place((threadgroup uint4 *)memory + SIMDGROUPS * STAGES * SLOT, k);
  threadgroup float *parts = x.end(k); /* [TILES][SIMDGROUPS][ROWS] */
  threadgroup float *squares = parts + TILES * SIMDGROUPS * ROWS;
  threadgroup float2 *turns = (threadgroup float2 *)(squares + SIMDGROUPS); /* [TILES][ROWS / 2] */

  /* What each lane copies of every segment. */
  uint copy_row[COPIES], copy_column[COPIES];
#pragma unroll
  for (uint i = 0; i < COPIES; ++i) {
    uint vector = lane + 32 * i;
    copy_row[i] = vector / VECTORS;
    copy_column[i] = vector % VECTORS * 16;
  }
  tiles<ROWS> mine;
  mine.place(group, groups, args.n, args.gated);
  uint count = mine.count, last_row = (args.gated ? 2 * args.n : args.n) - 1;

  /* Segment `simdgroup`, and then each SIMDGROUPS-th, of this threadgroup's is this SIMD-group's. */
  uint step_tiles = SIMDGROUPS / segments, step_segments = SIMDGROUPS % segments;
  uint ahead_tile = simdgroup / segments, ahead_segment = simdgroup % segments;
  uint ahead_slot = 0;
#define COPY_NEXT()                                                                                          \
  if (ahead_tile < count) {                                                                                  \
    uint start = ahead_segment * SEGMENT / 16 * 16, row = mine.row(ahead_tile);                              \
    _Pragma("unroll") for (uint i = 0; i < COPIES; ++i) {                                                    \
      uint place = start + copy_column[i];                                                                   \
      if (lane + 32 * i < ROWS * VECTORS && place < row_bytes)                                               \
        async_copy_streamed(ring + ahead_slot * SLOT + lane + 32 * i,                                        \
                            (device const uint4 *)(b + min(row + copy_row[i], last_row) * stride + place));  \
    }                                                                                                        \
    ahead_segment += step_segments;                                                                          \
    ahead_tile += step_tiles;                                                                                \
    if (ahead_segment >= segments) ahead_segment -= segments, ++ahead_tile;                                  \
  }                                                                                                          \
  async_copy_close();                                                                                        \
  ahead_slot = ahead_slot + 1 == STAGES ? 0 : ahead_slot + 1;

  if (args.written) wait_for_predecessor();
#pragma unroll 1
  for (uint i = 0; i < EARLY; ++i) {
    COPY_NEXT()
  }
  float frequency = rotation_frequency_of(args, mine, thread_index);
  /* The weights of the norm for this thread's first activations. */
  uint fours = k / 4;
  float4 first_norm[4];
#pragma unroll
  for (uint i = 0; i < 4; ++i)
    first_norm[i] = args.has_norm && i * THREADS + thread_index < fours ? norm[i * THREADS + thread_index] : float4(0);
  wait_for_predecessor();

  float square = 0;
  float4 kept = float4(0); /* of what this threadgroup writes to `normed` */
#pragma unroll 1
  for (uint first = 0; first < fours; first += 4 * THREADS) {
    float4 value[4];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint four = first + i * THREADS + thread_index;
      value[i] = four < fours ? a[four] : float4(0);
    }
    if (args.has_norm) {
#pragma unroll
      for (uint i = 0; i < 4; ++i) {
        uint four = first + i * THREADS + thread_index;
        square += dot(value[i], value[i]);
        value[i] *= first == 0 ? first_norm[i] : four < fours ? norm[four] : float4(0);
        if (four / THREADS == group) kept = value[i];
      }
    }
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      uint four = first + i * THREADS + thread_index;
      if (first + i * THREADS + simdgroup * 32 < fours) x.template keep<B>(four, value[i], four < fours);
    }
  }
  if (args.has_norm) {
    square = simd_sum(square);
    if (lane == 0) squares[simdgroup] = square;
  }
  for (uint i = thread_index; i < TILES * SIMDGROUPS * ROWS; i += THREADS) parts[i] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll 1
  for (uint i = EARLY; i < STAGES; ++i) {
    COPY_NEXT()
  }
  /* A row's norm is a factor: of the products, for roundings do not depend on it. */
  float factor = 1;
  if (args.has_norm) {
    float total = 0;
#pragma unroll
    for (uint i = 0; i < SIMDGROUPS; ++i) total += squares[i];
    factor = precise::rsqrt(total / float(k) + args.eps);
    uint four = group * THREADS + thread_index;
    if (four < fours) normed[four] = kept * factor;
    for (four += groups * THREADS; four < fours; four += groups * THREADS) normed[four] = a[four] * norm[four] * factor;
  }

  /* What this thread's first output is added to, on its way while products are computed. */
  float first_addend = first_output_addend(args, mine, TILES, addend, thread_index);
  make_rotation(args, mine, thread_index, frequency, positions, factors, turns);

  uint tile = simdgroup / segments, segment = simdgroup % segments, slot = 0;
  float sums[ROWS];
#pragma unroll
  for (uint r = 0; r < ROWS; ++r) sums[r] = 0;
#pragma unroll 1
  for (uint from = 0; from < count; from += TILES) {
    uint to = min(count, from + TILES);
#pragma unroll 1
    while (tile < to) {
      async_copy_wait<STAGES - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      uint part = segment * 32 + lane;
      if (part < parts_of_row) {
        typename B::operands values = x.at(part);
        threadgroup const uint4 *at = ring + slot * SLOT;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r)
          sums[r] += B::times((threadgroup const uint *)(at + r * VECTORS), segment * SEGMENT % 16, lane, values);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      COPY_NEXT()
      slot = slot + 1 == STAGES ? 0 : slot + 1;
      uint of = tile;
      segment += step_segments;
      tile += step_tiles;
      if (segment >= segments) segment -= segments, ++tile;
      if (tile != of) {
        /* Each eight lanes sum up one of four. */
        bool far = (lane & 16) != 0, odd = (lane & 8) != 0;
        float p = (far ? sums[2] : sums[0]) + simd_shuffle_xor(far ? sums[0] : sums[2], ushort(16));
        float q = (far ? sums[3] : sums[1]) + simd_shuffle_xor(far ? sums[1] : sums[3], ushort(16));
        float sum = (odd ? q : p) + simd_shuffle_xor(odd ? p : q, ushort(8));
#pragma unroll
        for (uint bit = 4; bit > 0; bit /= 2) sum += simd_shuffle_xor(sum, ushort(bit));
        if (lane % 8 == 0) parts[(of % TILES * SIMDGROUPS + simdgroup) * ROWS + lane / 8] = sum;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) sums[r] = 0;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    write_outputs<ROWS, SIMDGROUPS>(args, mine, from, to, parts, turns, factor, first_addend, addend, product, out,
                                    first_copy, second_copy, thread_index, THREADS);
    if (to == count) break;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < TILES * SIMDGROUPS * ROWS; i += THREADS) parts[i] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

#endif
