/* matmul_halves, matmul_halves_long and matmul_halves_short: a product of halves in tiles of 128 x 128. Contract in
 * args.h.
 *
 * Geometry: threadgroups of 256 threads, each for 128 rows and 128 columns of c: (m / 128, n / 128, 1), rounded up, so
 * that those that read the same columns of b run beside each other. HALVES_MEMORY bytes of threadgroup memory.
 *
 * Each of the eight SIMD-groups has 64 x 32 sums. Rows of a and b are copied into threadgroup memory STAGES - 1 steps
 * ahead, and lie 16 bytes further apart there than they are long, so that neither copies nor matrices meet in one bank.
 * Larger tiles would leave cores without one for prompts of a few hundred tokens.
 *
 * GPUs whose instructions multiply tiles that lie in threadgroup memory have a matmul_halves_long of their own. */
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

  /* A lane has two neighbors of a row of each matrix. */
  uint2 place = quad_place(lane);
  float2 factor[4], addend[4];
#pragma unroll
  for (uint j = 0; j < 4; ++j) {
    uint x = column + start + j * 8 + place.y;
    bool first = x < args.n, second = x + 1 < args.n;
    factor[j] = float2(args.has_b_scales && first ? b_scales[x] : 1.0f,
                       args.has_b_scales && second ? b_scales[x + 1] : 1.0f);
    addend[j] = float2(args.has_bias && first ? bias[x] : 0.0f, args.has_bias && second ? bias[x + 1] : 0.0f);
  }
#pragma unroll
  for (uint i = 0; i < 8; ++i) {
    uint y = row + top + i * 8 + place.x;
    if (y >= args.m) continue;
    float scale = a_scales[y];
#pragma unroll
    for (uint j = 0; j < 4; ++j) {
      uint x = column + start + j * 8 + place.y;
      float2 value = quad_elements(sums[i / 2][j / 2][i % 2 * 2 + j % 2]) * scale * factor[j] + addend[j];
      device float *to = c + y * args.c_row_stride + x;
      if (args.in_pairs && x + 1 < args.n) {
        ((device float2 *)to)[0] = value;
      } else {
        if (x < args.n) to[0] = value.x;
        if (x + 1 < args.n) to[1] = value.y;
      }
    }
  }
}

#ifdef __HAVE_IRONBRIDGE_TILE_PRODUCTS__

/* The first four SIMD-groups have 64 rows together, and the others the rest. Copies go two stages less ahead than there
 * are: the stage before is still being multiplied. */
[[kernel, max_total_threads_per_threadgroup(HALVES_THREADS)]] void
matmul_halves_long(device const half *a [[buffer(MATMUL_HALVES_A)]],
                   device const float *a_scales [[buffer(MATMUL_HALVES_A_SCALES)]],
                   device const half *b [[buffer(MATMUL_HALVES_B)]],
                   device const float *b_scales [[buffer(MATMUL_HALVES_B_SCALES)]],
                   device const float *bias [[buffer(MATMUL_HALVES_BIAS)]],
                   device float *c [[buffer(MATMUL_HALVES_C)]],
                   constant matmul_halves_args &args [[buffer(MATMUL_HALVES_ARGS)]],
                   threadgroup uchar *memory [[threadgroup(0)]], uint2 position [[threadgroup_position_in_grid]],
                   uint thread_index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint ROW_BYTES = HALVES_DEPTH * 2, TILE = HALVES_TILE * ROW_BYTES, AHEAD = HALVES_LONG_STAGES - 2;
  constexpr uint PIECES = ROW_BYTES / 16, COPIES = HALVES_TILE * PIECES / HALVES_THREADS;
  static_assert(ROW_BYTES == 128, "as msl::tile_rows has them");
  uint row = position.x * HALVES_TILE, column = position.y * HALVES_TILE, steps = args.k / HALVES_DEPTH;
  memory += (msl::tile_alignment - msl::shared_place(memory) % msl::tile_alignment) % msl::tile_alignment;

  device const half *from_a[COPIES], *from_b[COPIES];
  uint to[COPIES];
#pragma unroll
  for (uint i = 0; i < COPIES; ++i) {
    uint place = thread_index + i * HALVES_THREADS, of = place / PIECES, piece = place % PIECES;
    from_a[i] = a + min(row + of, args.m - 1) * args.a_row_stride + piece * 8;
    from_b[i] = b + min(column + of, args.n - 1) * args.b_row_stride + piece * 8;
    to[i] = of * ROW_BYTES + (piece ^ of % 8) * 16;
  }
#define COPY(STEP)                                                                                         \
  if (STEP < steps) {                                                                                      \
    threadgroup uchar *stage = memory + (STEP) % HALVES_LONG_STAGES * (2 * TILE);                          \
    _Pragma("unroll") for (uint piece = 0; piece < COPIES; ++piece) {                                      \
      async_copy((threadgroup uint4 *)(stage + to[piece]),                                                 \
                 (device const uint4 *)(from_a[piece] + ulong(STEP) * HALVES_DEPTH));                      \
      async_copy((threadgroup uint4 *)(stage + TILE + to[piece]),                                          \
                 (device const uint4 *)(from_b[piece] + ulong(STEP) * HALVES_DEPTH));                      \
    }                                                                                                      \
  }                                                                                                        \
  async_copy_close();

#pragma unroll
  for (uint step = 0; step < AHEAD; ++step) {
    COPY(step)
  }
  uint top = simdgroup / 4 * 64;
  float sums[64];
#pragma unroll
  for (uint i = 0; i < 64; ++i) sums[i] = 0;
#pragma unroll 1
  for (uint step = 0; step < steps; ++step) {
    async_copy_wait<AHEAD - 1>();
    msl::tile_copies_fence();
    threadgroup_barrier(mem_flags::mem_threadgroup);
    COPY(step + AHEAD)
    threadgroup uchar *left = memory + step % HALVES_LONG_STAGES * (2 * TILE);
    ulong rows = msl::tile_rows(left + top * ROW_BYTES), columns = msl::tile_rows(left + TILE);
    msl::tile_products_begin();
#pragma unroll
    for (uint x = 0; x < HALVES_DEPTH / 16; ++x)
      msl::tile_multiply(sums, msl::tile_columns(rows, x), msl::tile_columns(columns, x));
    msl::tile_products_close();
    msl::tile_products_wait<1>();
  }
#undef COPY
  msl::tile_products_wait<0>();

#pragma unroll
  for (uint side = 0; side < 2; ++side) {
    uint y = row + top + simdgroup % 4 * 16 + side * 8 + lane / 4;
    if (y >= args.m) continue;
    float scale = a_scales[y];
    device float *to_row = c + y * args.c_row_stride;
#pragma unroll
    for (uint j = 0; j < HALVES_TILE / 8; ++j) {
      uint x = column + j * 8 + lane % 4 * 2;
      bool first = x < args.n, second = x + 1 < args.n;
      float2 value = float2(sums[4 * j + 2 * side], sums[4 * j + 2 * side + 1]) * scale;
      if (args.has_b_scales) value *= float2(first ? b_scales[x] : 0.0f, second ? b_scales[x + 1] : 0.0f);
      if (args.has_bias) value += float2(first ? bias[x] : 0.0f, second ? bias[x + 1] : 0.0f);
      if (args.in_pairs && second) {
        ((device float2 *)(to_row + x))[0] = value;
      } else {
        if (first) to_row[x] = value.x;
        if (second) to_row[x + 1] = value.y;
      }
    }
  }
}

#endif

#define PRODUCT(NAME, ...) \
  template [[host_name(NAME)]] [[kernel]] decltype(matmul_halves<__VA_ARGS__>) matmul_halves<__VA_ARGS__>;

PRODUCT("matmul_halves", HALVES_DEPTH, HALVES_STAGES)
#ifndef __HAVE_IRONBRIDGE_TILE_PRODUCTS__
PRODUCT("matmul_halves_long", HALVES_DEPTH, HALVES_LONG_STAGES)
#endif
PRODUCT("matmul_halves_short", HALVES_SHORT_DEPTH, HALVES_SHORT_STAGES)
