/* Numbers that depend on the seed, the phase, the thread and the step alone, and not on what other threads do. */
#ifndef STRESS_RANDOM_H
#define STRESS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Random {
  uint64_t state;
} Random;

Random random_for(uint64_t seed, uint64_t phase, uint64_t thread, uint64_t step);
uint64_t random_bits(Random *random);
/* From 0 to `limit` - 1. */
uint64_t random_below(Random *random, uint64_t limit);
bool random_chance(Random *random, unsigned percent);

/* Mostly from 1 to `usual`; else 0, a power of two or a neighbor of one, UINT64_MAX, or any number. */
uint64_t random_count(Random *random, uint64_t usual);
/* As random_count, of bytes: at most 1 MiB, or more than any device has. */
uint64_t random_bytes(Random *random, uint64_t usual);
/* 0 polls, UINT64_MAX waits for ever, and what lies between. */
uint64_t random_timeout(Random *random);
/* NaN, infinities, zeros, a subnormal, the largest, or an ordinary number. */
float random_float(Random *random);
/* Mostly one of the constants from `first` to `last`, else any number. */
uint32_t random_constant(Random *random, uint32_t first, uint32_t last);

#endif
