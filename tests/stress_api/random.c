#include "random.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

/* SplitMix64: Steele, Lea, Flood 2014. */
static uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
  return value ^ value >> 31;
}

static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

Random random_for(uint64_t seed, uint64_t phase, uint64_t thread, uint64_t step) {
  return (Random){mix(mix(mix(seed + golden) + phase * golden) + thread * golden) + mix(step * golden + 1)};
}

uint64_t random_bits(Random *random) { return mix(random->state += golden); }

uint64_t random_below(Random *random, uint64_t limit) { return random_bits(random) % limit; }

bool random_chance(Random *random, unsigned percent) { return random_below(random, 100) < percent; }

uint64_t random_count(Random *random, uint64_t usual) {
  if (random_chance(random, 90)) return 1 + random_below(random, usual);
  switch (random_below(random, 5)) {
    case 0:
      return 0;
    case 1:
      return UINT64_MAX - random_below(random, 8);
    case 2:
      return (UINT64_C(1) << random_below(random, 64)) - 1;
    case 3:
      return (UINT64_C(1) << random_below(random, 64)) + random_below(random, 2);
    default:
      return random_bits(random);
  }
}

uint64_t random_bytes(Random *random, uint64_t usual) {
  const uint64_t backed = UINT64_C(1) << 20, impossible = UINT64_C(1) << 42;
  uint64_t bytes = random_count(random, usual);
  return bytes > backed && bytes < impossible ? bytes % backed : bytes;
}

uint64_t random_timeout(Random *random) {
  switch (random_below(random, 4)) {
    case 0:
      return 0;
    case 1:
      return UINT64_MAX;
    case 2:
      return random_below(random, 1000000);
    default:
      return random_count(random, 100000);
  }
}

float random_float(Random *random) {
  static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN / 2, 1e-5f};
  if (random_chance(random, 30)) return odd[random_below(random, sizeof odd / sizeof *odd)];
  return (float)((double)random_below(random, 2000) / 1000.0 - 1.0);
}

uint32_t random_constant(Random *random, uint32_t first, uint32_t last) {
  if (random_chance(random, 95)) return first + (uint32_t)random_below(random, last - first + 1);
  return (uint32_t)random_bits(random);
}
