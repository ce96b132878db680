/* The rotation of a head's pairs: contract of rope in args.h. */
#ifndef IRON_KERNELS_ROTATION_H
#define IRON_KERNELS_ROTATION_H

/* Of pair i, as far as it depends on no memory. Far from the start an angle has many turns, and fast sine, cosine and
 * power lose them. A float's angle itself is off by up to about position * 2^-22. */
static inline float rotation_frequency(uint i, uint rotary_dim, float base) {
  return precise::pow(base, -2.0f * float(i) / float(rotary_dim));
}

/* Cosine and sine. */
static inline float2 rotation(uint position, float scale, float frequency, float factor) {
  float theta = float(position) * scale * frequency;
  if (factor != 1.0f) theta /= factor;
  return float2(precise::cos(theta), precise::sin(theta));
}

/* An element to the copies that it belongs to, whose args have the members that rope_store's have. */
template <typename T, typename Args>
static inline void store_rotated(device T *first, device T *second, constant Args &args, uint element, float value) {
  uint to_first = element - args.first_start, to_second = element - args.second_start;
  if (to_first < args.first_width) first[to_first] = T(value);
  if (to_second < args.second_width) second[to_second] = T(value);
}

#endif
