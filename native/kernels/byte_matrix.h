/* Products of matrices of bytes that a SIMD-group holds together. Metal has none; this repository's standard library
 * names the instruction of devices that have. */
#ifndef IRON_KERNELS_BYTE_MATRIX_H
#define IRON_KERNELS_BYTE_MATRIX_H

/* sums += a b: 16 x 32 of a, 32 x 8 of b, signed bytes. With g = lane / 4 and t = lane % 4 a lane has of a's row g the
 * bytes from 4 t on in a0 and from 16 + 4 t on in a2, and the same of row g + 8 in a1 and a3. Of b's column g it has
 * the bytes from 4 t on in b0 and from 16 + 4 t on in b1. Its sums are columns 2 t and 2 t + 1, first of row g, then
 * of row g + 8. Whole SIMD-groups call it. PTX ISA 8.4, section 9.7.14.5.10 (mma.m16n8k32). */
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

#endif
