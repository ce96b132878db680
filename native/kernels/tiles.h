/* The matrix product in tiles, on the GPU's 8x8 matrices: what matmul_tiled.metal and matmul_blocks.metal instantiate
 * for their types.
 *
 * A threadgroup of four SIMD-groups computes 32 rows and 64 columns of c; of these each SIMD-group has 16 x 32, eight
 * matrices of sums. It walks along k in steps of 16. While the SIMD-groups multiply one pair of tiles in threadgroup
 * memory they fill the other pair, so that one barrier a step is enough. Tiles hold what the operands become as float,
 * but halves as they are; sums are float. Rows of a tile are 16 bytes further apart than they are long, so that the
 * matrices' columns do not meet in one bank. 15 KiB in all let four threadgroups share a core.
 *
 * Where the shapes come from: 32 x 64 by four SIMD-groups, 16 weights decoded by a thread at a time and edges staged in
 * threadgroup memory as in llama.cpp, kernel_mul_mm of ggml/src/ggml-metal/ggml-metal.metal; steps of 16 and padded
 * rows as in MLX, mlx/backend/metal/kernels/steel/gemm; threadgroup memory per core and the equal rate of float and
 * half matrices on M1:
 * github.com/philipturner/metal-benchmarks. Unlike llama.cpp's, tiles of float operands stay float: args.h promises
 * float results. */
#ifndef IRON_KERNELS_TILES_H
#define IRON_KERNELS_TILES_H

enum { TILE_ROWS = 32, TILE_COLUMNS = 64, TILE_DEPTH = 16, TILE_THREADS = 128 };

/* From one row of a tile in threadgroup memory to the next. */
template <typename Value> struct tile_stride {
  enum { OF = TILE_DEPTH + 16 / sizeof(Value) };
};

/* Fills `rows` rows of a tile from `from`, by the calling thread and its fellows of `threads`. `stride` leads along k
 * when `turned`, else from row to row; the other direction is contiguous. Past `height` rows and `depth` steps along k
 * there are zeros. */
template <typename Reader, uint rows, uint threads, typename Value, typename Stored>
static inline void fill_tile(threadgroup Value *tile, device const Stored *from, ulong stride, bool turned, uint height,
                             uint depth, uint thread_index) {
  constexpr uint STRIDE = tile_stride<Value>::OF;
#pragma unroll
  for (uint first = 0; first < rows * TILE_DEPTH; first += 4 * threads) {
    uint place = first + 4 * thread_index;
    if (turned) {
      uint x = place / rows, row = place % rows;
      float4 values = float4(0);
      if (x < depth && row < height) values = four_of<Reader>(from + x * stride + row, height - row);
#pragma unroll
      for (uint i = 0; i < 4; ++i) tile[(row + i) * STRIDE + x] = Value(values[i]);
    } else {
      uint row = place / TILE_DEPTH, x = place % TILE_DEPTH;
      float4 values = float4(0);
      if (row < height && x < depth) values = four_of<Reader>(from + row * stride + x, depth - x);
#pragma unroll
      for (uint i = 0; i < 4; ++i) tile[row * STRIDE + x + i] = Value(values[i]);
    }
  }
}

/* A and B as numbers: every thread fills a part of both tiles. */
template <typename A, typename B, typename Value> struct plain_tiles {
  typedef Value value;
  static ulong stored(ulong elements) { return elements; }
  static void fill(threadgroup Value *left, threadgroup Value *right, device const typename A::stored *a,
                   device const typename B::stored *b, constant matmul_args &args, uint row, uint column, uint x,
                   uint thread_index) {
    a += args.transpose_a ? x * args.a_row_stride + row : row * args.a_row_stride + x;
    b += args.transpose_b ? column * args.b_row_stride + x : x * args.b_row_stride + column;
    uint depth = args.k - x;
    fill_tile<A, TILE_ROWS, TILE_THREADS>(left, a, args.a_row_stride, args.transpose_a != 0, args.m - row, depth,
                                          thread_index);
    fill_tile<B, TILE_COLUMNS, TILE_THREADS>(right, b, args.b_row_stride, args.transpose_b == 0, args.n - column, depth,
                                             thread_index);
  }
};

/* A matrix of plain rows: reads group `group` of a row, of 16 weights. Strides are in weights. */
template <typename Block> struct plain_rows {
  template <typename Words>
  static void read(Words b, uint row, ulong row_stride, uint group, thread float &scale, thread float &offset,
                   thread float *q) {
    b = block_of<Block>(b + row * (row_stride / Block::WEIGHTS) * Block::WORDS, group);
    Block::read(b, group % (Block::WEIGHTS / 16), scale, offset, q);
  }
};

/* B in blocks, in plain rows or in strips: two SIMD-groups decode, sixteen weights a thread, and the other two copy
 * A. */
template <typename A, typename Block, typename Rows = plain_rows<Block>> struct block_tiles {
  typedef float value;
  static ulong stored(ulong elements) { return elements / Block::WEIGHTS * Block::WORDS; }
  template <typename Words>
  static void fill(threadgroup float *left, threadgroup float *right, device const typename A::stored *a, Words b,
                   constant matmul_args &args, uint row, uint column, uint x, uint thread_index) {
    if (thread_index >= TILE_COLUMNS) {
      a += args.transpose_a ? x * args.a_row_stride + row : row * args.a_row_stride + x;
      fill_tile<A, TILE_ROWS, TILE_THREADS - TILE_COLUMNS>(left, a, args.a_row_stride, args.transpose_a != 0,
                                                           args.m - row, args.k - x, thread_index - TILE_COLUMNS);
      return;
    }
    /* Past the last column stands the last one again; nobody asks for those sums. */
    uint weights_row = min(column + thread_index, args.n - 1);
    float scale, offset, q[16];
    Rows::read(b, weights_row, args.b_row_stride, x / 16, scale, offset, q);
    right += thread_index * tile_stride<float>::OF;
#pragma unroll
    for (uint i = 0; i < 16; ++i) right[i] = Block::OFFSET ? scale * q[i] + offset : scale * q[i];
  }
};

template <typename T, typename Stored, typename Tiles>
[[kernel]] void matmul_tiled(device const T *a [[buffer(MATMUL_A)]], device const Stored *b [[buffer(MATMUL_B)]],
                             device const T *bias [[buffer(MATMUL_BIAS)]], device T *c [[buffer(MATMUL_C)]],
                             constant matmul_args &args [[buffer(MATMUL_ARGS)]],
                             uint3 position [[threadgroup_position_in_grid]],
                             uint thread_index [[thread_index_in_threadgroup]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  typedef typename Tiles::value Value;
  constexpr uint STRIDE = tile_stride<Value>::OF;
  constexpr uint LEFT = TILE_ROWS * STRIDE, PAIR = LEFT + TILE_COLUMNS * STRIDE;
  constexpr uint TILES = 2 * PAIR * sizeof(Value) / sizeof(float), OUT = TILE_ROWS * TILE_COLUMNS;
  threadgroup float memory[TILES > OUT ? TILES : OUT];
  threadgroup Value *tiles = (threadgroup Value *)memory;

  uint row = position.y * TILE_ROWS, column = position.x * TILE_COLUMNS;
  ulong z = position.z;
  a += z * args.a_batch_stride;
  b += Tiles::stored(z * args.b_batch_stride);
  c += z * args.c_batch_stride;

  /* This SIMD-group's part of c. */
  uint top = simdgroup / 2 * 16, start = simdgroup % 2 * 32;
  simdgroup_float8x8 sums[2][4];
#pragma unroll
  for (uint i = 0; i < 2; ++i)
#pragma unroll
    for (uint j = 0; j < 4; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);

  uint steps = args.k / TILE_DEPTH + (args.k % TILE_DEPTH != 0);
  if (steps > 0) Tiles::fill(tiles, tiles + LEFT, a, b, args, row, column, 0, thread_index);
  for (uint step = 0; step < steps; ++step) {
    /* This step's tiles are full, and nobody reads the others any more. */
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup Value *other = tiles + (step + 1) % 2 * PAIR;
    if (step + 1 < steps)
      Tiles::fill(other, other + LEFT, a, b, args, row, column, (step + 1) * TILE_DEPTH, thread_index);
    threadgroup const Value *left = tiles + step % 2 * PAIR + top * STRIDE;
    threadgroup const Value *right = tiles + step % 2 * PAIR + LEFT + start * STRIDE;
#pragma unroll
    for (uint x = 0; x < TILE_DEPTH; x += 8) {
      simdgroup_matrix<Value, 8, 8> factors[4], factor;
#pragma unroll
      for (uint j = 0; j < 4; ++j) simdgroup_load(factors[j], right + j * 8 * STRIDE + x, STRIDE, ulong2(0, 0), true);
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        simdgroup_load(factor, left + i * 8 * STRIDE + x, STRIDE, ulong2(0, 0), false);
#pragma unroll
        for (uint j = 0; j < 4; ++j) simdgroup_multiply_accumulate(sums[i][j], factor, factors[j], sums[i][j]);
      }
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < 2; ++i)
#pragma unroll
    for (uint j = 0; j < 4; ++j)
      simdgroup_store(sums[i][j], memory + (top + i * 8) * TILE_COLUMNS + start + j * 8, TILE_COLUMNS, ulong2(0, 0),
                      false);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint height = min(args.m - row, uint(TILE_ROWS)), width = min(args.n - column, uint(TILE_COLUMNS));
  for (uint place = thread_index; place < height * TILE_COLUMNS; place += TILE_THREADS) {
    uint i = place / TILE_COLUMNS, j = place % TILE_COLUMNS;
    if (j >= width) continue;
    float sum = memory[place];
    if (args.has_bias) sum += float(bias[column + j]);
    c[(row + i) * args.c_row_stride + column + j] = T(sum);
  }
}

#endif
