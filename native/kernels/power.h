/* Powers of two that bring numbers into the range of halves. */
#ifndef IRON_KERNELS_POWER_H
#define IRON_KERNELS_POWER_H

/* What brings numbers that are not above `bound` below 2^15: from 2^-114 to 2^126, whatever the bound, also when it is
 * not finite. */
static inline float power_for(float bound) {
  return as_type<float>(uint(clamp(268 - int(as_type<uint>(bound) >> 23 & 255), 1, 253)) << 23);
}
static inline float inverse_of_power(float power) { return as_type<float>(0x7f000000u - as_type<uint>(power)); }

#endif
