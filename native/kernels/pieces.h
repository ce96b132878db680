/* Sums of an attention over some of the keys, each with the largest score among them, and how they are put together. */
#ifndef IRON_KERNELS_PIECES_H
#define IRON_KERNELS_PIECES_H

/* What the keys with a largest score of their own have to be multiplied with to join those with the `common` one. */
static inline float share(float largest, float sum, float common) {
  return as_type<uint>(sum) == 0 ? 0.0f : precise::exp(largest - common);
}

/* The larger one of two scores, of which only those with weights count. */
static inline float common_largest(float largest, float sum, float other, float other_sum) {
  if (as_type<uint>(other_sum) == 0) return largest;
  return as_type<uint>(sum) == 0 ? other : max(largest, other);
}

#endif
