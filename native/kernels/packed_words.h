/* Words of blocks of weights, whose parts begin at multiples of 2 bytes. */
#ifndef IRON_KERNELS_PACKED_WORDS_H
#define IRON_KERNELS_PACKED_WORDS_H

static inline float low_half(uint word) { return float(as_type<half2>(word).x); }
static inline float high_half(uint word) { return float(as_type<half2>(word).y); }
/* The four bytes from the third of `low` on. */
static inline uint straddling(uint low, uint high) { return low >> 16 | high << 16; }

#endif
