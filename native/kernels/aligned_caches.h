/* Caches whose heads begin at multiples of 16 bytes. Needs caches.h. */
#ifndef IRON_KERNELS_ALIGNED_CACHES_H
#define IRON_KERNELS_ALIGNED_CACHES_H

/* Caches whose elements index .. index + 3 lie at a multiple of their size. Element i is in stored number
 * i / BLOCK * WORDS. */
struct aligned_f32 {
  enum { BLOCK = 1, WORDS = 1 };
  typedef float stored;
  static float4 four(device const float *cache, ulong index) { return *(device const float4 *)(cache + index); }
};
struct aligned_f16 {
  enum { BLOCK = 1, WORDS = 1 };
  typedef half stored;
  static float4 four(device const half *cache, ulong index) {
    uint2 words = *(device const uint2 *)(cache + index);
    half2 low = as_type<half2>(words.x), high = as_type<half2>(words.y);
    return float4(float(low.x), float(low.y), float(high.x), float(high.y));
  }
};
struct aligned_bf16 {
  enum { BLOCK = 1, WORDS = 1 };
  typedef ushort stored;
  static float4 four(device const ushort *cache, ulong index) {
    uint2 words = *(device const uint2 *)(cache + index);
    return float4(as_type<float>(words.x << 16), as_type<float>(words.x & 0xffff0000u),
                  as_type<float>(words.y << 16), as_type<float>(words.y & 0xffff0000u));
  }
};
struct aligned_q8_0 {
  enum { BLOCK = 32, WORDS = 17 };
  typedef ushort stored;
  static float4 four(device const ushort *cache, ulong index) { return q8_0_blocks::four(cache, index, 4); }
};

#endif
