/* Products of matrices of bytes, and of small numbers, that a SIMD-group holds together. Metal has none; this
 * repository's standard library names the instructions of devices that have. Whole SIMD-groups call these functions.
 * g is lane / 4, and t is lane % 4. */
#ifndef IRON_KERNELS_BYTE_MATRIX_H
#define IRON_KERNELS_BYTE_MATRIX_H

/* sums += a b: 16 x 32 of a, 32 x 8 of b, signed bytes. A lane has of a's row g the bytes from 4 t on in a0 and from
 * 16 + 4 t on in a2, and the same of row g + 8 in a1 and a3. Of b's column g it has the bytes from 4 t on in b0 and
 * from 16 + 4 t on in b1. Its sums are columns 2 t and 2 t + 1, first of row g, then of row g + 8. PTX ISA 8.4, section
 * 9.7.14.5.10 (mma.m16n8k32). */
static inline void multiply_bytes(thread int *sums, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, uint lane) {
#ifdef __HAVE_IRONBRIDGE_BYTE_MATRIX__
  (void)lane;
  msl::multiply_bytes(sums, a0, a1, a2, a3, b0, b1);
#else
#pragma unroll 1
  for (uint t = 0; t < 4; ++t) {
    ushort row = ushort(lane / 4 * 4 + t), column = ushort(lane % 4 * 8 + t);
    uint p0 = simd_shuffle(a0, row), p1 = simd_shuffle(a1, row), p2 = simd_shuffle(a2, row), p3 = simd_shuffle(a3, row);
#pragma unroll
    for (ushort i = 0; i < 2; ++i) {
      uint q0 = simd_shuffle(b0, ushort(column + 4 * i)), q1 = simd_shuffle(b1, ushort(column + 4 * i));
      sums[i] = dot_of_bytes(p0, q0, dot_of_bytes(p2, q1, sums[i]));
      sums[2 + i] = dot_of_bytes(p1, q0, dot_of_bytes(p3, q1, sums[2 + i]));
    }
  }
#endif
}

/* The same of 16 x 16 and 16 x 8 bytes, those from 4 t on (mma.m16n8k16). */
static inline void multiply_few_bytes(thread int *sums, uint a0, uint a1, uint b, uint lane) {
#ifdef __HAVE_IRONBRIDGE_BYTE_MATRIX__
  (void)lane;
  msl::multiply_few_bytes(sums, a0, a1, b);
#else
  multiply_bytes(sums, a0, a1, 0, 0, b, 0, lane);
#endif
}

/* Two neighbors of multiply_pairs' b: where there is an instruction, 16 bits of each. */
static inline uint2 pair_of(float first, float second) {
#ifdef __HAVE_IRONBRIDGE_BYTE_MATRIX__
  return msl::pair_of(first, second);
#else
  return uint2(as_type<uint>(first), as_type<uint>(second));
#endif
}

/* sums += a b: 16 x 8 of a, whole numbers below 256, and 8 x 8 of b. A lane has of a's row g columns 2 t and 2 t + 1 in
 * `upper`, and the same of row g + 8 in `lower`. Of b's column g it has rows 2 t and 2 t + 1. Its sums are those of
 * multiply_bytes. PTX ISA 8.4, section 9.7.14.5.8 (mma.m16n8k16). */
static inline void multiply_pairs(thread float *sums, float2 upper, float2 lower, uint2 b, uint lane) {
#ifdef __HAVE_IRONBRIDGE_BYTE_MATRIX__
  (void)lane;
  msl::multiply_pairs(sums, upper.x, upper.y, lower.x, lower.y, b.x, b.y);
#else
#pragma unroll 1
  for (uint t = 0; t < 4; ++t) {
    ushort row = ushort(lane / 4 * 4 + t), column = ushort(lane % 4 * 8 + t);
    float2 p = simd_shuffle(upper, row), q = simd_shuffle(lower, row);
#pragma unroll
    for (ushort i = 0; i < 2; ++i) {
      float2 its = as_type<float2>(simd_shuffle(b, ushort(column + 4 * i)));
      sums[i] += p.x * its.x + p.y * its.y;
      sums[2 + i] += q.x * its.x + q.y * its.y;
    }
  }
#endif
}

#endif
