/* matvec_numbers_<B>_f32: the product of one row of activations with weights that are numbers. How it is shared out:
 * matvec_ring.h. Activations stay what they are; a lane multiplies 16 bytes of each row. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "async_copy.h"
#include "rotation.h"
#include "row_tiles.h"
#include "matvec_outputs.h"
#include "matvec_ring.h"

struct eight_operands {
  float4 first, second;
};

/* The first and the second half of each eight activations. */
struct eights {
  threadgroup float4 *first, *second;
  void place(threadgroup uint4 *memory, uint k) {
    first = (threadgroup float4 *)memory;
    second = first + k / 8;
  }
  threadgroup float *end(uint k) const { return (threadgroup float *)(second + k / 8); }
  template <typename B> void keep(uint four, float4 x, bool exists) const {
    if (exists) (four % 2 ? second : first)[four / 2] = x;
  }
  eight_operands at(uint part) const {
    return {first[part], second[part]};
  }
};

struct of_eights {
  enum { BLOCK = 1, BYTES = 2, LANE = 8, EARLY = MATVEC_NUMBERS_STAGES };
  typedef eights row;
  typedef eight_operands operands;
};

static inline float sum_of(float4 x) { return (x.x + x.y) + (x.z + x.w); }

struct numbers_f16 : of_eights {
  static float times(threadgroup const uint *from, uint, uint lane, thread const eight_operands &x) {
    uint4 words = ((threadgroup const uint4 *)from)[lane];
    half2 a = as_type<half2>(words.x), b = as_type<half2>(words.y);
    half2 c = as_type<half2>(words.z), d = as_type<half2>(words.w);
    return sum_of(x.first * float4(float(a.x), float(a.y), float(b.x), float(b.y)) +
                  x.second * float4(float(c.x), float(c.y), float(d.x), float(d.y)));
  }
};

struct numbers_bf16 : of_eights {
  static float times(threadgroup const uint *from, uint, uint lane, thread const eight_operands &x) {
    uint4 words = ((threadgroup const uint4 *)from)[lane], even = words << 16, odd = words & 0xffff0000u;
    return sum_of(x.first * float4(as_type<float>(even.x), as_type<float>(odd.x), as_type<float>(even.y),
                                   as_type<float>(odd.y)) +
                  x.second * float4(as_type<float>(even.z), as_type<float>(odd.z), as_type<float>(even.w),
                                    as_type<float>(odd.w)));
  }
};

#define NUMBERS(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matvec_ring<__VA_ARGS__>) matvec_ring<__VA_ARGS__>;

NUMBERS("matvec_numbers_f16_f32", numbers_f16, MATVEC_BYTES_SIMDGROUPS, MATVEC_NUMBERS_STAGES)
NUMBERS("matvec_numbers_bf16_f32", numbers_bf16, MATVEC_BYTES_SIMDGROUPS, MATVEC_NUMBERS_STAGES)
NUMBERS("matvec_numbers_short_f16_f32", numbers_f16, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
NUMBERS("matvec_numbers_short_bf16_f32", numbers_bf16, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES)
