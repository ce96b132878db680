/* Where the two elements of an 8x8 matrix stand that a thread of a SIMD-group holds: Apple's layout, which kernels rely
 * on (MLX, mlx/backend/metal/kernels/steel/attn/mma.h). */
#ifndef MSL_MATRIX_PLACE_H
#define MSL_MATRIX_PLACE_H

#include "types.h"

namespace msl {

/* In `row`, at `column` and `column + 1`. */
struct matrix_place {
  uint row, column;
  MSL_INLINE constexpr explicit matrix_place(uint lane)
      : row((lane / 4 & 4) + lane / 2 % 4), column((lane / 4 & 2) * 2 + lane % 2 * 2) {}
};

/* The lane that holds an element. */
MSL_INLINE constexpr uint lane_of(uint row, uint column) {
  return (row & 4) << 2 | (column & 4) << 1 | (row & 3) << 1 | (column >> 1 & 1);
}

}

#endif
