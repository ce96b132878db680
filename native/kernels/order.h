/* Floats in an order of their own. */
#ifndef IRON_KERNELS_ORDER_H
#define IRON_KERNELS_ORDER_H

/* An integer that orders floats: NaN is 0, below minus infinity, and both zeros are equal. Fast math may assume away
 * NaN in comparisons of floats, but not here. */
static inline uint order(uint bits) {
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0;
  if (magnitude == 0) return 0x80000000u;
  return bits == magnitude ? bits | 0x80000000u : ~bits;
}

#endif
