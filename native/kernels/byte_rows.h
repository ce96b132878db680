/* Activations rounded to 8 bits: each 32 neighbors share a scale, the largest of them over 127. */
#ifndef IRON_KERNELS_BYTE_ROWS_H
#define IRON_KERNELS_BYTE_ROWS_H

/* An integer sum that starts here is the last bits of a float, 12582912 = 1.5 * 2^23 more than the sum: no conversion
 * is needed. */
constant constexpr int FLOAT_BITS = 0x4b400000;
constant constexpr float FLOAT_ORIGIN = 12582912.0f;
static inline float sum_of(int bits) { return as_type<float>(bits) - FLOAT_ORIGIN; }

/* Eight neighbors as bytes, in the order of memory; their block's scale; the sums of the bytes of this lane and its
 * neighbor, 16 in all, and of the whole block. */
struct eight_bytes {
  uint low, high;
  float scale;
  int sum, block_sum;
  /* Of eight activations of each lane, four of which have a block: whole SIMD-groups call it. The largest is found
   * among bits, so that of activations that are no numbers come products that are none. */
  eight_bytes(float4 first, float4 second) {
    uint4 sizes = max(as_type<uint4>(first) & 0x7fffffffu, as_type<uint4>(second) & 0x7fffffffu);
    uint size = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
    size = max(size, simd_shuffle_xor(size, ushort(1)));
    size = max(max(size, simd_shuffle_xor(size, ushort(2))), as_type<uint>(1e-30f));
    float largest = as_type<float>(size), inverse = fast::divide(127.0f, largest);
    scale = largest * (1 / 127.0f);
    low = high = 0;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      low |= (as_type<uint>(fma(first[i], inverse, FLOAT_ORIGIN)) & 255) << 8 * i;
      high |= (as_type<uint>(fma(second[i], inverse, FLOAT_ORIGIN)) & 255) << 8 * i;
    }
    sum = dot_of_bytes(low, 0x01010101u, dot_of_bytes(high, 0x01010101u, 0));
    sum += simd_shuffle_xor(sum, ushort(1));
    block_sum = sum + simd_shuffle_xor(sum, ushort(2));
  }
};

#endif
