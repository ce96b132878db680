/* Matrices of 16 x 16 that a SIMD-group holds together: four of 8 x 8, [0] and [1] the upper ones. Metal has no
 * functions for them. Each 8 x 8 matrix lies as the instructions have it, and not as Apple does: lane i has the two
 * elements from column i % 4 * 2 on of row i / 4. PTX ISA 8.4, sections 9.7.14.5.8 (mma.m16n8k16) and 9.7.14.5.15
 * (ldmatrix). Of right operands lane i has two elements of column i / 4, from row i % 4 * 2 on.
 *
 * Floats are multiplied as two numbers of 11 bits each, without the product of the smaller ones: what is lost is below
 * 2^-22 of a product (mma.m16n8k8, the same). */
#ifndef MSL_QUADS_H
#define MSL_QUADS_H

#include "../simdgroup_matrix.h"
#include "bulk.h"
#include "places.h"
#include "tiles.h"

namespace msl {

/* Those of native/kernels/byte_matrix.h. */
MSL_INLINE void multiply_bytes(int *sums, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

MSL_INLINE void multiply_few_bytes(int *sums, uint a0, uint a1, uint b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a0), "r"(a1), "r"(b));
}
/* A float's upper half is a bfloat16 of it. What both halves lose is below 2^-15 of a number. */
MSL_INLINE uint upper_halves(float first, float second) {
  return __builtin_bit_cast(uint, first) >> 16 | (__builtin_bit_cast(uint, second) & 0xffff0000);
}
MSL_INLINE float of_upper_half(float x) { return __builtin_bit_cast(float, __builtin_bit_cast(uint, x) & 0xffff0000); }
MSL_INLINE metal::vec<uint, 2> pair_of(float first, float second) {
  return metal::vec<uint, 2>(upper_halves(first, second),
                             upper_halves(first - of_upper_half(first), second - of_upper_half(second)));
}
MSL_INLINE void multiply_pairs(float *sums, float a0, float a1, float a2, float a3, uint b0, uint b1) {
  uint upper = upper_halves(a0, a1), lower = upper_halves(a2, a3);
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%6, %7}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper), "r"(lower), "r"(b0), "r"(b1));
}

/* Four matrices of 8 x 8 halves; lane i gives where row i % 8 of matrix i / 8 is. */
#define MSL_LOAD_MATRICES(name, transposed)                                                                        \
  MSL_INLINE void name(metal::simdgroup_half8x8 *first, metal::simdgroup_half8x8 *second,                          \
                       metal::simdgroup_half8x8 *third, metal::simdgroup_half8x8 *fourth, const half *row) {       \
    uint word[4];                                                                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];"                  \
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])                                      \
                 : "r"(shared_place(row))                                                                          \
                 : "memory");                                                                                      \
    __builtin_memcpy(&first->elements, &word[0], 4);                                                               \
    __builtin_memcpy(&second->elements, &word[1], 4);                                                              \
    __builtin_memcpy(&third->elements, &word[2], 4);                                                               \
    __builtin_memcpy(&fourth->elements, &word[3], 4);                                                              \
  }
MSL_LOAD_MATRICES(load_matrices, "")
MSL_LOAD_MATRICES(load_transposed, ".trans")

MSL_INLINE uint word_of(const metal::simdgroup_half8x8 &matrix) {
  uint word;
  __builtin_memcpy(&word, &matrix.elements, 4);
  return word;
}

/* 16 x 8 sums += 16 x 16 of a times 16 x 8 of b. */
MSL_INLINE void multiply_quad(metal::simdgroup_float8x8 &upper, metal::simdgroup_float8x8 &lower, const uint (&a)[4],
                              uint b_upper, uint b_lower) {
  float sum[4] = {upper.elements.x, upper.elements.y, lower.elements.x, lower.elements.y};
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
  upper.elements = metal::vec<float, 2>(sum[0], sum[1]);
  lower.elements = metal::vec<float, 2>(sum[2], sum[3]);
}

/* 11 bits of a number that is not too large, and the rest. */
struct two_parts {
  uint high, low;
  MSL_INLINE explicit two_parts(float x) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
    float rest = x - __builtin_bit_cast(float, high);
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(rest));
  }
};
MSL_INLINE void multiply_parts(float (&sum)[4], const uint (&a)[4], const uint (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* 16 x 8 sums += 16 x 8 of a times 8 x 8 of b. The instruction's columns i and i + 4 of a are the neighbors that a lane
 * has, and so are its rows of b: the order of a sum's terms is free. */
MSL_INLINE void multiply_floats(metal::simdgroup_float8x8 &upper, metal::simdgroup_float8x8 &lower,
                                const metal::simdgroup_float8x8 &a_upper, const metal::simdgroup_float8x8 &a_lower,
                                const metal::simdgroup_float8x8 &b) {
  two_parts a[4] = {two_parts(a_upper.elements.x), two_parts(a_lower.elements.x), two_parts(a_upper.elements.y),
                    two_parts(a_lower.elements.y)};
  two_parts c[2] = {two_parts(b.elements.x), two_parts(b.elements.y)};
  uint a_high[4] = {a[0].high, a[1].high, a[2].high, a[3].high}, a_low[4] = {a[0].low, a[1].low, a[2].low, a[3].low};
  uint b_high[2] = {c[0].high, c[1].high}, b_low[2] = {c[0].low, c[1].low};
  float sum[4] = {upper.elements.x, upper.elements.y, lower.elements.x, lower.elements.y};
  multiply_parts(sum, a_low, b_high);
  multiply_parts(sum, a_high, b_low);
  multiply_parts(sum, a_high, b_high);
  upper.elements = metal::vec<float, 2>(sum[0], sum[1]);
  lower.elements = metal::vec<float, 2>(sum[2], sum[3]);
}

}

namespace metal {

/* Rows of a that are `stride` apart, and columns of b. */
MSL_INLINE void quad_load_left(simdgroup_half8x8 *a, const half *rows, uint stride) {
  uint lane = msl::lane_index();
  msl::load_matrices(a, a + 2, a + 1, a + 3, rows + lane % 16 * stride + lane / 16 * 8);
}
MSL_INLINE void quad_load_right(simdgroup_half8x8 *b, const half *columns, uint stride) {
  uint lane = msl::lane_index();
  msl::load_matrices(b, b + 2, b + 1, b + 3, columns + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
}
MSL_INLINE void quad_load_right(simdgroup_float8x8 *b, const float *columns, uint stride) {
  uint lane = msl::lane_index();
  const float *from = columns + lane / 4 * stride + lane % 4 * 2;
  _Pragma("unroll") for (uint i = 0; i < 4; i++)
    __builtin_memcpy(&b[i].elements, __builtin_assume_aligned(from + i % 2 * 8 * stride + i / 2 * 8, 8), 8);
}
/* Rows of b that are `stride` apart. */
MSL_INLINE void quad_load_right_rows(simdgroup_half8x8 *b, const half *rows, uint stride) {
  uint lane = msl::lane_index();
  msl::load_transposed(b, b + 2, b + 1, b + 3, rows + lane % 16 * stride + lane / 16 * 8);
}
MSL_INLINE void quad_load_right_rows(simdgroup_float8x8 *b, const float *rows, uint stride) {
  uint lane = msl::lane_index();
  const float *from = rows + lane % 4 * 2 * stride + lane / 4;
  _Pragma("unroll") for (uint i = 0; i < 4; i++) {
    const float *row = from + i / 2 * 8 * stride + i % 2 * 8;
    b[i].elements = vec<float, 2>(row[0], row[stride]);
  }
}
/* sums += a b. What lies as sums do is also a left operand. */
MSL_INLINE void quad_multiply_accumulate(simdgroup_float8x8 *sums, const simdgroup_half8x8 *a,
                                         const simdgroup_half8x8 *b) {
  uint left[4] = {msl::word_of(a[0]), msl::word_of(a[2]), msl::word_of(a[1]), msl::word_of(a[3])};
  msl::multiply_quad(sums[0], sums[2], left, msl::word_of(b[0]), msl::word_of(b[2]));
  msl::multiply_quad(sums[1], sums[3], left, msl::word_of(b[1]), msl::word_of(b[3]));
}
/* The same of floats. */
MSL_INLINE void quad_multiply_accumulate(simdgroup_float8x8 *sums, const simdgroup_float8x8 *a,
                                         const simdgroup_float8x8 *b) {
  _Pragma("unroll") for (uint i = 0; i < 2; i++) _Pragma("unroll") for (uint x = 0; x < 2; x++)
    msl::multiply_floats(sums[i], sums[2 + i], a[x], a[2 + x], b[x * 2 + i]);
}
/* Row and column of the first of the two neighbors that a lane holds of an 8 x 8 matrix of sums. */
MSL_INLINE uint2 quad_place(uint lane) { return uint2(lane / 4, lane % 4 * 2); }
MSL_INLINE float2 quad_elements(const simdgroup_float8x8 &sums) { return sums.elements; }
MSL_INLINE simdgroup_float8x8 quad_matrix(float2 pair) {
  simdgroup_float8x8 result;
  result.elements = pair;
  return result;
}
MSL_INLINE simdgroup_half8x8 quad_halves(half2 pair) {
  simdgroup_half8x8 result;
  result.elements = pair;
  return result;
}
/* The four lanes that share a row are those that differ in the bits of quad_lane(0) and quad_lane(1). */
MSL_INLINE ushort quad_lane(uint i) { return i == 0 ? 1 : 2; }

}

#endif
