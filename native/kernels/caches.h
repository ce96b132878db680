/* Keys and values by type of cache: four neighbours of a head as float. Needs plain.h and blocks.h. */
#ifndef IRON_KERNELS_CACHES_H
#define IRON_KERNELS_CACHES_H

/* A cache of numbers. */
template <typename Reader> struct numbers {
  typedef typename Reader::stored stored;
  /* Elements index .. index + 3, of which `count` exist; zeros in place of the others. */
  static float4 four(device const stored *cache, ulong index, uint count) {
    return four_of<Reader>(cache + index, count);
  }
};

/* A cache of Q8_0. Heads are whole blocks, so four neighbours from a multiple of four on always exist. */
struct q8_0_blocks {
  typedef ushort stored;
  static float4 four(device const ushort *cache, ulong index, uint) {
    device const ushort *block = cache + index / 32 * q8_0::WORDS;
    device const ushort *words = block + 1 + index % 32 / 2;
    char2 low = as_type<char2>(words[0]), high = as_type<char2>(words[1]);
    return half_of(block[0]) * float4(float(low.x), float(low.y), float(high.x), float(high.y));
  }
};

/* Whether a score gives its key no weight at all. Compared as bits, which fast math leaves alone. */
static inline bool weightless(float score) { return as_type<uint>(score) == 0xff800000u; }

#endif
