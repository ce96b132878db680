/* matmul_halves and matmul_halves_short: a product of halves in tiles of 128 x 128. Contract in args.h.
 *
 * Geometry: threadgroups of 256 threads, each for 128 rows and 128 columns of c: (m / 128, n / 128, 1), rounded up, so
 * that those that read the same columns of b run beside each other. HALVES_MEMORY bytes of threadgroup memory.
 *
 * Each of the eight SIMD-groups has 64 x 32 sums. Rows of a and b are copied into threadgroup memory STAGES - 1 steps
 * ahead, and lie 16 bytes further apart there than they are long, so that neither copies nor matrices meet in one bank.
 * Larger tiles would leave cores without one for prompts of a few hundred tokens. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "async_copy.h"
#include "matrix_quads.h"

template <uint DEPTH, uint STAGES>
[[kernel, max_total_threads_per_threadgroup(HALVES_THREADS)]] void
matmul_halves(device const half *a [[buffer(MATMUL_HALVES_A)]],
              device const float *a_scales [[buffer(MATMUL_HALVES_A_SCALES)]],
              device const half *b [[buffer(MATMUL_HALVES_B)]],
              device const float *b_scales [[buffer(MATMUL_HALVES_B_SCALES)]],
              device const float *bias [[buffer(MATMUL_HALVES_BIAS)]], device float *c [[buffer(MATMUL_HALVES_C)]],
              constant matmul_halves_args &args [[buffer(MATMUL_HALVES_ARGS)]],
              threadgroup half *memory [[threadgroup(0)]], uint2 position [[threadgroup_position_in_grid]],
              uint thread_index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
              uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint STRIDE = DEPTH + HALVES_PADDING, TILE = HALVES_TILE * STRIDE, PIECES = DEPTH / 8;
  constexpr uint COPIES = HALVES_TILE * PIECES / HALVES_THREADS, AHEAD = STAGES - 1;
  uint row = position.x * HALVES_TILE, column = position.y * HALVES_TILE, steps = args.k / DEPTH;

  /* What this thread copies in each step. Past the last row and the last column stand these again. */
  device const half *from_a[COPIES], *from_b[COPIES];
  uint to[COPIES];
#pragma unroll
  for (uint i = 0; i < COPIES; ++i) {
    uint place = thread_index + i * HALVES_THREADS, of = place / PIECES, piece = place % PIECES;
    from_a[i] = a + min(row + of, args.m - 1) * args.a_row_stride + piece * 8;
    from_b[i] = b + min(column + of, args.n - 1) * args.b_row_stride + piece * 8;
    to[i] = of * STRIDE + piece * 8;
  }
#define COPY(STEP)                                                                                         \
  if (STEP < steps) {                                                                                      \
    threadgroup half *stage = memory + (STEP) % STAGES * (2 * TILE);                                       \
    _Pragma("unroll") for (uint piece = 0; piece < COPIES; ++piece) {                                      \
      async_copy((threadgroup uint4 *)(stage + to[piece]),                                                 \
                 (device const uint4 *)(from_a[piece] + ulong(STEP) * DEPTH));                             \
      async_copy((threadgroup uint4 *)(stage + TILE + to[piece]),                                          \
                 (device const uint4 *)(from_b[piece] + ulong(STEP) * DEPTH));                             \
    }                                                                                                      \
  }                                                                                                        \
  async_copy_close();

#pragma unroll
  for (uint step = 0; step < AHEAD; ++step) {
    COPY(step)
  }
  /* This SIMD-group's part. */
  uint top = simdgroup / 4 * 64, start = simdgroup % 4 * 32;
  simdgroup_float8x8 sums[4][2][4];
#pragma unroll
  for (uint i = 0; i < 32; ++i) sums[i / 8][i / 4 % 2][i % 4] = make_filled_simdgroup_matrix<float, 8>(0.0f);
#pragma unroll 1
  for (uint step = 0; step < steps; ++step) {
    async_copy_wait<AHEAD - 1>();
    /* This step's tiles are there, and nobody reads those that the next copies replace. */
    threadgroup_barrier(mem_flags::mem_threadgroup);
    COPY(step + AHEAD)
    threadgroup const half *left = memory + step % STAGES * (2 * TILE), *right = left + TILE;
#pragma unroll
    for (uint x = 0; x < DEPTH; x += 16) {
      simdgroup_half8x8 factors[2][4];
#pragma unroll
      for (uint j = 0; j < 2; ++j) quad_load_right(factors[j], right + (start + 16 * j) * STRIDE + x, STRIDE);
#pragma unroll
      for (uint i = 0; i < 4; ++i) {
        simdgroup_half8x8 factor[4];
        quad_load_left(factor, left + (top + 16 * i) * STRIDE + x, STRIDE);
#pragma unroll
        for (uint j = 0; j < 2; ++j) quad_multiply_accumulate(sums[i][j], factor, factors[j]);
      }
    }
  }
#undef COPY

  uint2 place = quad_place(lane);
#pragma unroll
  for (uint i = 0; i < 32; ++i) {
    uint y = row + top + i / 8 * 16 + i % 4 / 2 * 8 + place.x;
    uint x = column + start + i / 4 % 2 * 16 + i % 2 * 8 + place.y;
    if (y >= args.m) continue;
    float2 values = quad_elements(sums[i / 8][i / 4 % 2][i % 4]) * a_scales[y];
#pragma unroll
    for (uint side = 0; side < 2; ++side) {
      if (x + side >= args.n) continue;
      float value = values[side];
      if (args.has_b_scales) value *= b_scales[x + side];
      if (args.has_bias) value += bias[x + side];
      c[y * args.c_row_stride + x + side] = value;
    }
  }
}

#define PRODUCT(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_halves<__VA_ARGS__>) matmul_halves<__VA_ARGS__>;

PRODUCT("matmul_halves", HALVES_DEPTH, HALVES_STAGES)
PRODUCT("matmul_halves_short", HALVES_SHORT_DEPTH, HALVES_SHORT_STAGES)
