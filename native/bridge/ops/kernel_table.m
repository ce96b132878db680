#include "kernel_table.h"

#include <pthread.h>
#include <string.h>

#include "args.h"
#import "operand.h"

/* Of several kernels for the same types the first one whose condition holds is taken, so each list ends with one that
 * takes every shape. */
#define ALWAYS NULL
#define THREAD_PER_POINT {{0}, 0}
#define SIMDGROUP_PER_POINT {{1, 1, 1}, 32}
#define TILE_OF_32 {{32, 32, 1}, 256}
#define COLUMNS_OF_32 {{32, 1, 1}, 256}
#define SIMDGROUP_PER_BLOCK {{32, 1, 1}, 32} /* Q8_0's 32 elements */
#define BLOCKS_OF_A_ROW {{512, 1, 1}, 32}
#define MATVEC {{8, 1, 1}, 64}
#define NARROW {{8, 8, 1}, 128}
#define TILES {{64, 32, 1}, 128}
#define QUERIES_OF_32 {{1, 32, 1}, 128}
#define QUERIES_OF_64 {{1, 64, 1}, 128}
#define PIECE_OF_KEYS {{1, 1, 1}, 128}
#define SMALL_PIECE_OF_KEYS {{1, 1, 1}, 256}
#define FOUR_COLUMNS {{4, 1, 1}, 128}
#define FOUR_BY_FOUR {{4, 4, 1}, 128}
#define THREADGROUP_OF_A_CORE {{1, 1, 1}, 32 * MATVEC_BYTES_SIMDGROUPS}
#define SMALL_THREADGROUP_OF_A_CORE {{1, 1, 1}, 32 * MATVEC_BYTES_FEW_SIMDGROUPS}
/* And 32 threads that copy. */
#define PANELS_OF_A_CORE {{1, 1, 1}, 32 * MATVEC_PANELS_SIMDGROUPS + 32}
#define SMALL_PANELS_OF_A_CORE {{1, 1, 1}, 32 * MATVEC_PANELS_FEW_SIMDGROUPS + 32}
#define PANELS_OF_ROWS {{1, 1, 1}, 32 * MATMUL_PANELS_SIMDGROUPS}
#define EIGHTS_OF_A_ROW {{1024, 1, 1}, 128}
#define SLICES_OF_A_CORE {{1, 1, 1}, 32 * MATMUL_SLICES_SIMDGROUPS}
#define SMALL_SLICES_OF_A_CORE {{1, 1, 1}, 32 * MATMUL_SLICES_FEW_SIMDGROUPS}
#define ONE_COLUMN {{1, 1, 1}, 128}
#define ROW_OF_A_THREADGROUP {{1, 1, 1}, 128}
#define LARGE_TILES {{HALVES_TILE, HALVES_TILE, 1}, HALVES_THREADS}
#define LARGEST_THREADGROUP_PER_POINT {{1, 1, 1}, 1024}

/* A product whose weights are stored as rows of k, as models store them, and whose activations are so too. */
static bool is_of_rows(const matmul_args *args) { return args->transpose_b && !args->transpose_a; }

static bool has_one_row(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  (void)operands;
  return args->m == 1 && is_of_rows(args);
}

enum { VECTOR_BYTES = 16 };

static bool is_wide(const struct IronOperand *operand) { return operand->buffer->device->cores >= IRON_MANY_CORES; }

/* A GPU, where a kernel's start takes longer than small work. */
static bool is_gpu(const struct IronOperand *operand) { return operand->buffer->device->cores > 0; }

/* Operands of kernels that read vectors of 16 bytes. */
static bool is_aligned(const struct IronOperand *operand) { return operand->offset % VECTOR_BYTES == 0; }

/* Rows of a type that is stored in elements or blocks of that size. */
static bool is_vectors(uint64_t elements, uint32_t of_block, uint32_t bytes) {
  return elements / of_block * bytes % VECTOR_BYTES == 0;
}

/* Products that a threadgroup shares out along k, of one row of a or of so few that reading b again for each four of
 * them is better than tiles without matrix units. */
enum { SOME_ROWS = 64 };

static bool is_shared_out(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block,
                          uint32_t bytes) {
  return is_of_rows(args) && is_wide(&operands[MATMUL_B]) && is_aligned(&operands[MATMUL_A]) &&
         is_aligned(&operands[MATMUL_B]) && args->a_batch_stride % 4 == 0 &&
         (args->m == 1 || args->a_row_stride % 4 == 0) && is_vectors(args->b_batch_stride, of_block, bytes);
}
/* Numbers are read as vectors, and so each row is some. */
#define IS_SHARED_OUT(name, of_block, bytes, rows_too)                                                             \
  static bool is_shared_out_of_##name(const matmul_args *args, const struct IronOperand *operands) {               \
    return is_shared_out(args, operands, of_block, bytes) &&                                                       \
           (!(rows_too) || (is_vectors(args->b_row_stride, of_block, bytes) && is_vectors(args->k, of_block, bytes) && \
                            args->k % 4 == 0));                                                                    \
  }                                                                                                                \
  static bool has_one_row_of_##name(const void *arguments, const struct IronOperand *operands) {                   \
    const matmul_args *args = arguments;                                                                           \
    return args->m == 1 && is_shared_out_of_##name(args, operands);                                                \
  }                                                                                                                \
  static bool has_some_rows_of_##name(const void *arguments, const struct IronOperand *operands) {                 \
    const matmul_args *args = arguments;                                                                           \
    return args->m <= SOME_ROWS && is_shared_out_of_##name(args, operands);                                        \
  }
/* Products of one row of any weights, on GPUs of few cores. */
static bool is_joined(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  const IronOperand *b = &operands[MATMUL_B];
  return args->m == 1 && args->batch == 1 && is_of_rows(args) && is_gpu(b) && !is_wide(b);
}
/* Weights for one row of activations that a threadgroup copies, with room for what SIMD-groups read ahead. */
static bool is_of_rings(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block, uint32_t bytes,
                        uint64_t memory) {
  const IronOperand *b = &operands[MATMUL_B];
  return args->m == 1 && args->batch == 1 && is_shared_out(args, operands, of_block, bytes) &&
         is_vectors(args->b_row_stride, of_block, bytes) && is_vectors(args->k, of_block, bytes) &&
         memory <= [b->buffer->device->metal maxThreadgroupMemoryLength];
}
/* Weights in blocks, for activations that are worth being rounded. */
static bool is_of_bytes(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block, uint32_t bytes,
                        uint32_t simdgroups, uint32_t stages) {
  uint32_t segment = MATVEC_BYTES_SEGMENT / of_block * bytes;
  return is_of_rings(args, operands, of_block, bytes,
                     MATVEC_BYTES_MEMORY(simdgroups, stages, segment, (uint64_t)args->k));
}
static bool is_of_numbers(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  return is_of_rings(
      args, operands, 1, 2,
      MATVEC_NUMBERS_MEMORY(MATVEC_BYTES_SIMDGROUPS, MATVEC_NUMBERS_STAGES, (uint64_t)args->k));
}
static bool is_of_numbers_short(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  return is_of_rings(
      args, operands, 1, 2,
      MATVEC_NUMBERS_MEMORY(MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES, (uint64_t)args->k));
}
#define IS_OF_BYTES(name, of_block, bytes)                                                                     \
  static bool is_of_bytes_##name(const void *arguments, const struct IronOperand *operands) {                  \
    return is_of_bytes(arguments, operands, of_block, bytes, MATVEC_BYTES_SIMDGROUPS,                          \
                       MATVEC_BYTES_STAGES(MATVEC_BYTES_SEGMENT / (of_block) * (bytes)));                      \
  }                                                                                                            \
  static bool is_of_bytes_short_##name(const void *arguments, const struct IronOperand *operands) {            \
    return is_of_bytes(arguments, operands, of_block, bytes, MATVEC_BYTES_FEW_SIMDGROUPS, MATVEC_BYTES_FEW_STAGES); \
  }
/* Small products begin and end all the time: there threadgroups are paired, so that the next product's are on a core
 * already. Of weights of 8 bits they have room for two stages, which is too few for long rows. `of_256`: bytes of 256
 * weights. */
enum { SMALL_WIDTH = 2048, MOST_BYTES_OF_LONG = 256 };
static bool is_small(const matmul_args *args, uint32_t of_256) {
  return args->k <= SMALL_WIDTH || (args->n <= SMALL_WIDTH && of_256 <= MOST_BYTES_OF_LONG);
}
/* The same by matrices of bytes, for activations that may be rounded to bytes. */
static uint32_t panels_memory(uint32_t simdgroups, bool paired, uint32_t of_256, uint64_t k) {
  if (paired)
    return MATVEC_PANELS_MEMORY(simdgroups, MATVEC_PANELS_PAIRED_RING,
                                MATVEC_PANELS_PAIRED_SEGMENT / 256 * of_256, k);
  return simdgroups == MATVEC_PANELS_SIMDGROUPS
             ? MATVEC_PANELS_MEMORY(simdgroups, MATVEC_PANELS_RING,
                                    MATVEC_PANELS_LONG_SEGMENT(of_256) / 256 * of_256, k)
             : MATVEC_PANELS_MEMORY(simdgroups, MATVEC_PANELS_SHORT_RING,
                                    MATVEC_PANELS_SHORT_SEGMENT(of_256) / 256 * of_256, k);
}
static bool is_of_panels(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block, uint32_t bytes,
                         uint32_t simdgroups) {
  /* Without copies of whole rows, which devices with less do not have, others are faster. */
  enum { LEAST = 170 << 10 };
  uint32_t memory = panels_memory(simdgroups, false, 256 / of_block * bytes, args->k);
  if (simdgroups == MATVEC_PANELS_SIMDGROUPS && memory < LEAST) memory = LEAST;
  return args->k % 256 == 0 && is_of_rings(args, operands, of_block, bytes, memory);
}
#define IS_OF_PANELS(name, of_block, bytes)                                                                \
  static bool is_of_panels_##name(const void *arguments, const struct IronOperand *operands) {            \
    return is_of_panels(arguments, operands, of_block, bytes, MATVEC_PANELS_SIMDGROUPS);                   \
  }                                                                                                        \
  static bool is_of_panels_paired_##name(const void *arguments, const struct IronOperand *operands) {     \
    const matmul_args *args = arguments;                                                                   \
    return is_small(args, 256 / (of_block) * (bytes)) && is_of_panels_##name(arguments, operands);         \
  }                                                                                                        \
  static bool is_of_panels_short_##name(const void *arguments, const struct IronOperand *operands) {       \
    return is_of_panels(arguments, operands, of_block, bytes, MATVEC_PANELS_FEW_SIMDGROUPS);               \
  }
IS_OF_PANELS(q8_0, 32, 34)
IS_OF_PANELS(q4_0, 32, 18)
IS_OF_PANELS(q4_k, 256, 144)
IS_OF_PANELS(q6_k, 256, 210)

IS_OF_BYTES(q8_0, 32, 34)
IS_OF_BYTES(q4_0, 32, 18)
IS_OF_BYTES(q4_k, 256, 144)
IS_OF_BYTES(q6_k, 256, 210)

IS_SHARED_OUT(f32, 1, 4, true)
IS_SHARED_OUT(f16, 1, 2, true)
IS_SHARED_OUT(bf16, 1, 2, true)
IS_SHARED_OUT(q8_0, 32, 34, false)
IS_SHARED_OUT(q4_0, 32, 18, false)
IS_SHARED_OUT(q4_k, 256, 144, false)
IS_SHARED_OUT(q6_k, 256, 210, false)

/* From how many rows on and up to how many a product is worth being cut into slices of k. Weights that are halves
 * already take less before their tiles. */
enum {
  FEWEST_ROWS_OF_SLICES = 5,
  MOST_ROWS_OF_SLICES = 64,
  MOST_ROWS_OF_SLICES_OF_HALVES = 32,
  WEIGHTS_OF_SLICES = 32
};

static bool is_of_slices(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block, uint32_t bytes,
                         uint32_t memory) {
  uint32_t most = of_block == 1 ? MOST_ROWS_OF_SLICES_OF_HALVES : MOST_ROWS_OF_SLICES;
  return args->m >= FEWEST_ROWS_OF_SLICES && args->m <= most && args->batch == 1 &&
         args->n >= MATMUL_SLICES_ROWS && args->k % WEIGHTS_OF_SLICES == 0 &&
         is_shared_out(args, operands, of_block, bytes) && is_vectors(args->b_row_stride, of_block, bytes) &&
         is_vectors(args->k, of_block, bytes) &&
         memory <= [operands[MATMUL_B].buffer->device->metal maxThreadgroupMemoryLength];
}
#define SLICES_MEMORY(NAME) \
  MATMUL_SLICES_MEMORY(MATMUL_SLICES_WIDTH, MATMUL_SLICES_SIMDGROUPS, MATMUL_SLICES_STAGES(NAME), NAME)
#define SHORT_SLICES_MEMORY(NAME) \
  MATMUL_SLICES_MEMORY(MATMUL_SLICES_SHORT_WIDTH, MATMUL_SLICES_FEW_SIMDGROUPS, MATMUL_SLICES_FEW_STAGES, NAME)
#define IS_OF_SLICES(name, of_block, bytes, NAME)                                                            \
  static bool is_of_slices_##name(const void *arguments, const struct IronOperand *operands) {               \
    return is_of_slices(arguments, operands, of_block, bytes, SLICES_MEMORY(NAME));                          \
  }                                                                                                          \
  static bool is_of_short_slices_##name(const void *arguments, const struct IronOperand *operands) {         \
    return is_of_slices(arguments, operands, of_block, bytes, SHORT_SLICES_MEMORY(NAME));                    \
  }
IS_OF_SLICES(q8_0, 32, 34, MATMUL_SLICES_Q8_0)
IS_OF_SLICES(q4_0, 32, 18, MATMUL_SLICES_Q4_0)
IS_OF_SLICES(q4_k, 256, 144, MATMUL_SLICES_Q4_K)
IS_OF_SLICES(q6_k, 256, 210, MATMUL_SLICES_Q6_K)
IS_OF_SLICES(f16, 1, 2, MATMUL_SLICES_F16)

/* The same for activations that may be rounded to bytes. */
static bool is_of_byte_panels(const matmul_args *args, const struct IronOperand *operands, uint32_t of_block,
                              uint32_t bytes) {
  return args->m > 1 && args->m <= MATMUL_PANELS_ROWS && args->batch == 1 && args->k % 256 == 0 &&
         is_shared_out(args, operands, of_block, bytes) && is_vectors(args->b_row_stride, of_block, bytes) &&
         is_vectors(args->k, of_block, bytes) &&
         MATMUL_PANELS_MEMORY <= [operands[MATMUL_B].buffer->device->metal maxThreadgroupMemoryLength];
}
#define IS_OF_BYTE_PANELS(name, of_block, bytes)                                                      \
  static bool is_of_byte_panels_##name(const void *arguments, const struct IronOperand *operands) {   \
    return is_of_byte_panels(arguments, operands, of_block, bytes);                                   \
  }
IS_OF_BYTE_PANELS(q8_0, 32, 34)
IS_OF_BYTE_PANELS(q4_0, 32, 18)
IS_OF_BYTE_PANELS(q4_k, 256, 144)
IS_OF_BYTE_PANELS(q6_k, 256, 210)

/* From how many rows on a product is worth the matrix units of a device of many cores. Weights that are floats keep
 * their precision. */
enum { MANY_ROWS = 57, MANY_ROWS_OF_HALVES = 25, MANY_ROWS_OF_OTHER_TYPES = 9 };

bool IronMatmulIsOfHalves(const matmul_args *args, const IronOperand *operands) {
  const IronOperand *a = &operands[MATMUL_A], *b = &operands[MATMUL_B];
  if (args->batch > 1 || !is_of_rows(args) || !is_wide(b) || a->dtype != IRON_F32 || b->dtype == IRON_F32) return false;
  if (args->m >= (b->dtype == IRON_F16 ? MANY_ROWS_OF_HALVES : MANY_ROWS)) return true;
  int other = IronKernelFind(IRON_OPERATION_MATMUL, b->dtype, a->dtype, args, operands);
  return args->m >= MANY_ROWS_OF_OTHER_TYPES && strcmp(IronKernelTable[other].family, "matvec_wide") != 0;
}

static bool has_room(const struct IronOperand *operands, uint32_t memory) {
  return memory <= [operands[MATMUL_HALVES_A].buffer->device->metal maxThreadgroupMemoryLength];
}
static bool has_room_for_long_tiles(const void *arguments, const struct IronOperand *operands) {
  (void)arguments;
  return has_room(operands, HALVES_MEMORY(HALVES_DEPTH, HALVES_LONG_STAGES));
}
static bool has_room_for_deep_tiles(const void *arguments, const struct IronOperand *operands) {
  (void)arguments;
  return has_room(operands, HALVES_MEMORY(HALVES_DEPTH, HALVES_STAGES));
}
static bool has_room_for_tiles(const void *arguments, const struct IronOperand *operands) {
  (void)arguments;
  return has_room(operands, HALVES_MEMORY(HALVES_SHORT_DEPTH, HALVES_SHORT_STAGES));
}

static bool has_few_rows(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  (void)operands;
  return args->m <= 8 && is_of_rows(args);
}

static bool has_many_rows(const void *arguments, const struct IronOperand *operands) {
  const matmul_args *args = arguments;
  (void)operands;
  return args->m > 8;
}

/* Set when the keys are divided among threadgroups (attention_pieces.m). */
static bool has_pieces(const void *arguments, const struct IronOperand *operands) {
  const attention_args *args = arguments;
  (void)operands;
  return args->splits > 0;
}

static bool has_many_queries(const attention_args *args, uint32_t head_dim) {
  return args->tokens > 8 && args->head_dim <= head_dim;
}
static bool has_many_queries_of_64(const void *arguments, const struct IronOperand *operands) {
  (void)operands;
  return has_many_queries(arguments, 64);
}
static bool has_many_queries_of_128(const void *arguments, const struct IronOperand *operands) {
  (void)operands;
  return has_many_queries(arguments, 128);
}
static bool has_many_queries_of_256(const void *arguments, const struct IronOperand *operands) {
  (void)operands;
  return has_many_queries(arguments, 256);
}

static bool are_copies_of_a_gpu(const void *arguments, const struct IronOperand *operands) {
  (void)arguments;
  return is_gpu(&operands[COPIES_SRC]);
}

static bool is_rope_of_a_gpu(const void *arguments, const struct IronOperand *operands) {
  (void)arguments;
  return is_gpu(&operands[ROPE_STORE_X]);
}

/* Rows so long that a threadgroup shares each out. */
enum { LONG_ROW = 1024 };

static bool has_long_rows_to_normalize(const void *arguments, const struct IronOperand *operands) {
  const rms_norm_args *args = arguments;
  return args->width >= LONG_ROW && args->width % 4 == 0 && args->x_row_stride % 4 == 0 &&
         args->out_row_stride % 4 == 0 && is_gpu(&operands[RMS_NORM_X]) && is_aligned(&operands[RMS_NORM_X]) &&
         is_aligned(&operands[RMS_NORM_WEIGHT]) && is_aligned(&operands[RMS_NORM_OUT]);
}

static bool has_long_rows_to_search(const void *arguments, const struct IronOperand *operands) {
  const argmax_args *args = arguments;
  return args->width >= LONG_ROW && args->width % 4 == 0 && args->x_row_stride % 4 == 0 &&
         is_gpu(&operands[ARGMAX_X]) && is_aligned(&operands[ARGMAX_X]);
}

/* Heads that begin at multiples of 16 bytes. */
static bool has_aligned_heads(const attention_args *args, const IronOperand *operands) {
  uint64_t strides = args->q_token_stride | args->q_head_stride | args->k_token_stride | args->k_head_stride |
                     args->v_token_stride | args->v_head_stride;
  return strides % 4 == 0 && is_aligned(&operands[ATTENTION_Q]) && is_aligned(&operands[ATTENTION_K]) &&
         is_aligned(&operands[ATTENTION_V]);
}

bool IronAttentionIsWide(const attention_args *args, const IronOperand *operands) {
  bool known = (args->head_dim == 64 || args->head_dim == 128) && args->softcap == 0;
  return known && is_gpu(&operands[ATTENTION_Q]) && has_aligned_heads(args, operands);
}

static bool are_many_queries_in_quads(const attention_args *args, const struct IronOperand *operands,
                                      uint32_t head_dim) {
  return has_many_queries(args, head_dim) && args->head_dim % 4 == 0 && is_wide(&operands[ATTENTION_Q]) &&
         has_aligned_heads(args, operands);
}
static bool are_many_queries_in_quads_of_64(const void *arguments, const struct IronOperand *operands) {
  return are_many_queries_in_quads(arguments, operands, 64);
}
static bool are_many_queries_in_quads_of_128(const void *arguments, const struct IronOperand *operands) {
  return are_many_queries_in_quads(arguments, operands, 128);
}

/* Set on GPUs (attention_pieces.m). */
static bool is_wide_of(const attention_args *args, uint32_t head_dim) {
  return args->heads_at_once != 0 && args->head_dim == head_dim;
}
static bool is_grouped_of_64(const void *arguments, const struct IronOperand *operands) {
  const attention_args *args = arguments;
  (void)operands;
  return args->heads_at_once > 1 && is_wide_of(args, 64);
}
static bool is_grouped_of_128(const void *arguments, const struct IronOperand *operands) {
  const attention_args *args = arguments;
  (void)operands;
  return args->heads_at_once > 1 && is_wide_of(args, 128);
}
static bool is_wide_of_64(const void *arguments, const struct IronOperand *operands) {
  (void)operands;
  return is_wide_of(arguments, 64);
}
static bool is_wide_of_128(const void *arguments, const struct IronOperand *operands) {
  (void)operands;
  return is_wide_of(arguments, 128);
}

/* The kernels of a product with weights of type B and activations of type T. */
#define MATVEC_BYTES(B, NAME)                                                                                    \
  {IRON_OPERATION_MATMUL_FUSED, {B, IRON_F32}, is_of_bytes_##NAME, "matvec_bytes", "matvec_bytes_" #NAME "_f32", \
   THREADGROUP_OF_A_CORE},                                                                                       \
  {IRON_OPERATION_MATMUL_FUSED, {B, IRON_F32}, is_of_bytes_short_##NAME, "matvec_bytes",                         \
   "matvec_bytes_short_" #NAME "_f32", SMALL_THREADGROUP_OF_A_CORE},
#define MATVEC_PANELS(B, NAME)                                                                                     \
  {IRON_OPERATION_MATMUL_FUSED_BYTES, {B, IRON_F32}, is_of_panels_paired_##NAME, "matvec_panels",                  \
   "matvec_panels_paired_" #NAME "_f32", PANELS_OF_A_CORE},                                                        \
  {IRON_OPERATION_MATMUL_FUSED_BYTES, {B, IRON_F32}, is_of_panels_##NAME, "matvec_panels",                         \
   "matvec_panels_" #NAME "_f32", PANELS_OF_A_CORE},                                                               \
  {IRON_OPERATION_MATMUL_FUSED_BYTES, {B, IRON_F32}, is_of_panels_short_##NAME, "matvec_panels",                   \
   "matvec_panels_short_" #NAME "_f32", SMALL_PANELS_OF_A_CORE},
#define MATVEC_NUMBERS(B, NAME)                                                                                  \
  {IRON_OPERATION_MATMUL_FUSED, {B, IRON_F32}, is_of_numbers, "matvec_numbers", "matvec_numbers_" #NAME "_f32",  \
   THREADGROUP_OF_A_CORE},                                                                                       \
  {IRON_OPERATION_MATMUL_FUSED, {B, IRON_F32}, is_of_numbers_short, "matvec_numbers",                            \
   "matvec_numbers_short_" #NAME "_f32", SMALL_THREADGROUP_OF_A_CORE},
#define MATMUL_SLICES(B, NAME)                                                                                     \
  {IRON_OPERATION_MATMUL_SLICES, {B, IRON_F32}, is_of_slices_##NAME, "matmul_slices", "matmul_slices_" #NAME "_f32", \
   SLICES_OF_A_CORE},                                                                                              \
  {IRON_OPERATION_MATMUL_SLICES, {B, IRON_F32}, is_of_short_slices_##NAME, "matmul_slices",                        \
   "matmul_slices_short_" #NAME "_f32", SMALL_SLICES_OF_A_CORE},
#define MATMUL_PANELS(B, NAME)                                                                          \
  {IRON_OPERATION_MATMUL_PANELS, {B, IRON_F32}, is_of_byte_panels_##NAME, "matmul_panels",              \
   "matmul_panels_" #NAME "_f32", PANELS_OF_ROWS},
#define MATVEC_WIDE(B, NAME, GEOMETRY)                                                                           \
  {IRON_OPERATION_MATMUL, {B, IRON_F32}, has_one_row_of_##NAME, "matvec_wide", "matvec_wide_" #NAME "_f32", GEOMETRY}, \
  {IRON_OPERATION_MATMUL, {B, IRON_F32}, has_some_rows_of_##NAME, "matvec_wide", "matvec_wide_narrow_" #NAME "_f32",   \
   FOUR_BY_FOUR},
#define FLOAT_MATMULS(B, T, NAMES)                                                               \
  {IRON_OPERATION_MATMUL, {B, T}, has_one_row, "matvec", "matvec_" NAMES, MATVEC},                    \
  {IRON_OPERATION_MATMUL, {B, T}, has_few_rows, "matvec", "matvec_narrow_" NAMES, NARROW},            \
  {IRON_OPERATION_MATMUL, {B, T}, has_many_rows, "matmul_tiled", "matmul_tiled_" NAMES, TILES},       \
  {IRON_OPERATION_MATMUL, {B, T}, ALWAYS, "matmul", "matmul_" NAMES, THREAD_PER_POINT},
#define MATMULS_OF_BLOCKS(B, T, NAMES)                                                                \
  {IRON_OPERATION_MATMUL, {B, T}, has_one_row, "matvec_blocks", "matvec_" NAMES, MATVEC},             \
  {IRON_OPERATION_MATMUL, {B, T}, has_few_rows, "matvec_blocks", "matvec_narrow_" NAMES, NARROW},     \
  {IRON_OPERATION_MATMUL, {B, T}, ALWAYS, "matmul_blocks", "matmul_tiled_" NAMES, TILES},

/* The kernels of an attention over caches of type C. */
#define ATTENTIONS(C, NAME)                                                                                \
  {IRON_OPERATION_ATTENTION, {C}, is_grouped_of_64, "attention_wide", "attention_grouped_64_" NAME,        \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION, {C}, is_grouped_of_128, "attention_wide", "attention_grouped_128_" NAME,      \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION, {C}, is_wide_of_64, "attention_wide", "attention_wide_64_" NAME, SMALL_PIECE_OF_KEYS}, \
  {IRON_OPERATION_ATTENTION, {C}, is_wide_of_128, "attention_wide", "attention_wide_128_" NAME,            \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION_TEXTS, {C}, is_grouped_of_64, "attention_wide", "attention_texts_grouped_64_" NAME, \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION_TEXTS, {C}, is_grouped_of_128, "attention_wide", "attention_texts_grouped_128_" NAME, \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION_TEXTS, {C}, is_wide_of_64, "attention_wide", "attention_texts_64_" NAME,       \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION_TEXTS, {C}, is_wide_of_128, "attention_wide", "attention_texts_128_" NAME,     \
   SMALL_PIECE_OF_KEYS},                                                                                   \
  {IRON_OPERATION_ATTENTION, {C}, has_pieces, "attention_split", "attention_split_" NAME, PIECE_OF_KEYS},  \
  {IRON_OPERATION_ATTENTION, {C}, are_many_queries_in_quads_of_64, "attention_quads",                      \
   "attention_quads_64_" NAME, QUERIES_OF_64},                                                             \
  {IRON_OPERATION_ATTENTION, {C}, are_many_queries_in_quads_of_128, "attention_quads",                     \
   "attention_quads_128_" NAME, QUERIES_OF_64},                                                            \
  {IRON_OPERATION_ATTENTION, {C}, has_many_queries_of_64, "attention_tiled",                               \
   "attention_tiled_64_" NAME, QUERIES_OF_32},                                                             \
  {IRON_OPERATION_ATTENTION, {C}, has_many_queries_of_128, "attention_tiled",                              \
   "attention_tiled_128_" NAME, QUERIES_OF_32},                                                            \
  {IRON_OPERATION_ATTENTION, {C}, has_many_queries_of_256, "attention_tiled",                              \
   "attention_tiled_256_" NAME, QUERIES_OF_32},                                                            \
  {IRON_OPERATION_ATTENTION, {C}, ALWAYS, "attention", "attention_" NAME, SIMDGROUP_PER_POINT},

const IronKernelEntry IronKernelTable[] = {
    MATVEC_PANELS(IRON_Q8_0, q8_0)
    MATVEC_PANELS(IRON_Q4_0, q4_0)
    MATVEC_PANELS(IRON_Q4_K, q4_k)
    MATVEC_PANELS(IRON_Q6_K, q6_k)
    MATVEC_BYTES(IRON_Q8_0, q8_0)
    MATVEC_BYTES(IRON_Q4_0, q4_0)
    MATVEC_BYTES(IRON_Q4_K, q4_k)
    MATVEC_BYTES(IRON_Q6_K, q6_k)
    MATVEC_NUMBERS(IRON_F16, f16)
    MATVEC_NUMBERS(IRON_BF16, bf16)
    MATMUL_SLICES(IRON_Q8_0, q8_0)
    MATMUL_SLICES(IRON_Q4_0, q4_0)
    MATMUL_SLICES(IRON_Q4_K, q4_k)
    MATMUL_SLICES(IRON_Q6_K, q6_k)
    MATMUL_SLICES(IRON_F16, f16)
    MATMUL_PANELS(IRON_Q8_0, q8_0)
    MATMUL_PANELS(IRON_Q4_0, q4_0)
    MATMUL_PANELS(IRON_Q4_K, q4_k)
    MATMUL_PANELS(IRON_Q6_K, q6_k)
    {IRON_OPERATION_PANELS_BYTES, {0}, ALWAYS, "matmul_panels", "matmul_panels_bytes", EIGHTS_OF_A_ROW},
    {IRON_OPERATION_PANELS_SUM, {0}, ALWAYS, "matmul_panels", "matmul_panels_sum", THREAD_PER_POINT},
    {IRON_OPERATION_SLICES_SUM, {0}, ALWAYS, "matmul_slices", "matmul_slices_sum", THREAD_PER_POINT},
    MATVEC_WIDE(IRON_F32, f32, ONE_COLUMN)
    MATVEC_WIDE(IRON_F16, f16, ONE_COLUMN)
    MATVEC_WIDE(IRON_BF16, bf16, ONE_COLUMN)
    MATVEC_WIDE(IRON_Q8_0, q8_0, FOUR_COLUMNS)
    MATVEC_WIDE(IRON_Q4_0, q4_0, FOUR_COLUMNS)
    MATVEC_WIDE(IRON_Q4_K, q4_k, FOUR_COLUMNS)
    MATVEC_WIDE(IRON_Q6_K, q6_k, FOUR_COLUMNS)
    {IRON_OPERATION_MATMUL_HALVES, {0}, has_room_for_long_tiles, "matmul_halves", "matmul_halves_long", LARGE_TILES},
    {IRON_OPERATION_MATMUL_HALVES, {0}, has_room_for_deep_tiles, "matmul_halves", "matmul_halves", LARGE_TILES},
    {IRON_OPERATION_MATMUL_HALVES, {0}, has_room_for_tiles, "matmul_halves", "matmul_halves_short", LARGE_TILES},
    {IRON_OPERATION_RMS_NORM, {0}, has_long_rows_to_normalize, "rms_norm_wide", "rms_norm_wide",
     LARGEST_THREADGROUP_PER_POINT},
    {IRON_OPERATION_ARGMAX, {0}, has_long_rows_to_search, "argmax_wide", "argmax_wide", LARGEST_THREADGROUP_PER_POINT},

#define MATVEC_JOINED(NAME, name)                                                                            \
  {IRON_OPERATION_MATMUL_FUSED, {IRON_##NAME, IRON_F32}, is_joined, "matvec_joined", "matvec_joined_" #name "_f32", \
   MATVEC},
#define DTYPE_FLOAT(id, NAME, name, ...)                     \
  MATVEC_JOINED(NAME, name)                                  \
  FLOAT_MATMULS(IRON_##NAME, IRON_F32, #name "_f32")    \
  FLOAT_MATMULS(IRON_##NAME, IRON_F16, #name "_f16")    \
  {IRON_OPERATION_EMBEDDING, {IRON_##NAME}, ALWAYS, "embedding", "embedding_" #name, THREAD_PER_POINT}, \
  {IRON_OPERATION_HALVES, {IRON_##NAME}, ALWAYS, "halves", "halves_" #name, ROW_OF_A_THREADGROUP},
#define DTYPE_BLOCK(id, NAME, name, ...)                     \
  MATVEC_JOINED(NAME, name)                                  \
  MATMULS_OF_BLOCKS(IRON_##NAME, IRON_F32, #name "_f32")     \
  MATMULS_OF_BLOCKS(IRON_##NAME, IRON_F16, #name "_f16")     \
  {IRON_OPERATION_EMBEDDING, {IRON_##NAME}, ALWAYS, "embedding", "embedding_" #name, BLOCKS_OF_A_ROW}, \
  {IRON_OPERATION_HALVES, {IRON_##NAME}, ALWAYS, "halves", "halves_" #name, ROW_OF_A_THREADGROUP},
#include "dtypes.def"
#define OP(NAME, name, form, family, geometry) {IRON_OPERATION_##NAME, {0}, ALWAYS, #family, #name, geometry},
#include "ops.def"

    {IRON_OPERATION_ROPE, {0}, ALWAYS, "rope", "rope", THREAD_PER_POINT},
    {IRON_OPERATION_ROPE_STORE, {IRON_F32}, is_rope_of_a_gpu, "rope_store", "rope_store_f32", THREAD_PER_POINT},
    {IRON_OPERATION_ROPE_STORE, {IRON_F16}, is_rope_of_a_gpu, "rope_store", "rope_store_f16", THREAD_PER_POINT},

    ATTENTIONS(IRON_F32, "f32")
    ATTENTIONS(IRON_F16, "f16")
    ATTENTIONS(IRON_BF16, "bf16")
    ATTENTIONS(IRON_Q8_0, "q8_0")
    {IRON_OPERATION_ATTENTION_MERGE, {0}, is_wide_of_64, "attention_wide", "attention_wide_merge_64",
     SMALL_PIECE_OF_KEYS},
    {IRON_OPERATION_ATTENTION_MERGE, {0}, is_wide_of_128, "attention_wide", "attention_wide_merge_128",
     SMALL_PIECE_OF_KEYS},
    {IRON_OPERATION_ATTENTION_MERGE, {0}, ALWAYS, "attention_split", "attention_merge", SIMDGROUP_PER_POINT},
    {IRON_OPERATION_ATTENTION_TEXTS_MERGE, {0}, is_wide_of_64, "attention_wide", "attention_texts_merge_64",
     SMALL_PIECE_OF_KEYS},
    {IRON_OPERATION_ATTENTION_TEXTS_MERGE, {0}, is_wide_of_128, "attention_wide", "attention_texts_merge_128",
     SMALL_PIECE_OF_KEYS},

    {IRON_OPERATION_ATTENTION_BACKWARD_Q, {0}, ALWAYS, "attention_backward", "attention_backward_q",
     SIMDGROUP_PER_POINT},
    {IRON_OPERATION_ATTENTION_BACKWARD_KV, {0}, ALWAYS, "attention_backward", "attention_backward_kv",
     SIMDGROUP_PER_POINT},
    {IRON_OPERATION_ACCUMULATE, {IRON_F32}, ALWAYS, "accumulate", "accumulate_f32", THREAD_PER_POINT},
    {IRON_OPERATION_ACCUMULATE, {IRON_F16}, ALWAYS, "accumulate", "accumulate_f16", THREAD_PER_POINT},

    {IRON_OPERATION_TRANSPOSE, {IRON_F32}, ALWAYS, "transpose", "transpose_32", TILE_OF_32},
    {IRON_OPERATION_TRANSPOSE, {IRON_U32}, ALWAYS, "transpose", "transpose_32", TILE_OF_32},
    {IRON_OPERATION_TRANSPOSE, {IRON_F16}, ALWAYS, "transpose", "transpose_16", TILE_OF_32},
    {IRON_OPERATION_TRANSPOSE, {IRON_BF16}, ALWAYS, "transpose", "transpose_16", TILE_OF_32},

    {IRON_OPERATION_COPY, {IRON_F32, IRON_F32}, ALWAYS, "copy", "copy_f32_f32", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F32, IRON_F16}, ALWAYS, "copy", "copy_f32_f16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F32, IRON_BF16}, ALWAYS, "copy", "copy_f32_bf16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_F32}, ALWAYS, "copy", "copy_f16_f32", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_F16}, ALWAYS, "copy", "copy_f16_f16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_BF16}, ALWAYS, "copy", "copy_f16_bf16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_F32}, ALWAYS, "copy", "copy_bf16_f32", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_F16}, ALWAYS, "copy", "copy_bf16_f16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_BF16}, ALWAYS, "copy", "copy_bf16_bf16", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_F32, IRON_Q8_0}, ALWAYS, "copy", "copy_f32_q8_0", SIMDGROUP_PER_BLOCK},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_Q8_0}, ALWAYS, "copy", "copy_f16_q8_0", SIMDGROUP_PER_BLOCK},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_Q8_0}, ALWAYS, "copy", "copy_bf16_q8_0", SIMDGROUP_PER_BLOCK},
    {IRON_OPERATION_COPY, {IRON_Q8_0, IRON_F32}, ALWAYS, "copy", "copy_q8_0_f32", THREAD_PER_POINT},
    {IRON_OPERATION_COPY, {IRON_U32, IRON_U32}, ALWAYS, "copy", "copy_u32_u32", THREAD_PER_POINT},
    {IRON_OPERATION_COPIES, {IRON_F32, IRON_F32}, are_copies_of_a_gpu, "copies", "copies_f32_f32", THREAD_PER_POINT},
    {IRON_OPERATION_COPIES, {IRON_F32, IRON_F16}, are_copies_of_a_gpu, "copies", "copies_f32_f16", THREAD_PER_POINT},
    {IRON_OPERATION_COPIES, {IRON_F32, IRON_Q8_0}, are_copies_of_a_gpu, "copies", "copies_f32_q8_0",
     SIMDGROUP_PER_BLOCK},

};

enum { KERNELS = sizeof IronKernelTable / sizeof *IronKernelTable };
_Static_assert((int)KERNELS <= (int)IRON_KERNELS_AT_MOST, "pipelines.h has room for every kernel");

/* The entries of each operation in their order, so that a search does not see the others': the first one's index plus
 * one, and that of the one after each. 0 ends a list. */
static int first_of[IRON_OPERATIONS], next_of[KERNELS];

static void make_lists(void) {
  for (int index = KERNELS - 1; index >= 0; index--) {
    int *first = &first_of[IronKernelTable[index].operation];
    next_of[index] = *first;
    *first = index + 1;
  }
}

static int first_entry(IronOperation operation) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_lists);
  return first_of[operation] - 1;
}

static int entry_after(int index) { return next_of[index] - 1; }

static bool is_for(const IronKernelEntry *entry, iron_dtype first, iron_dtype second) {
  return entry->types[0] == first && entry->types[1] == second;
}

int IronKernelFind(IronOperation operation, iron_dtype first, iron_dtype second, const void *arguments,
                   const struct IronOperand *operands) {
  for (int index = first_entry(operation); index >= 0; index = entry_after(index)) {
    const IronKernelEntry *entry = &IronKernelTable[index];
    if (is_for(entry, first, second) && (!entry->when || entry->when(arguments, operands))) return index;
  }
  return -1;
}

bool IronKernelExists(IronOperation operation, iron_dtype first, iron_dtype second) {
  for (int index = first_entry(operation); index >= 0; index = entry_after(index))
    if (is_for(&IronKernelTable[index], first, second)) return true;
  return false;
}

static uint32_t bytes_of(iron_dtype type, uint64_t weights) {
  uint64_t bytes = 0;
  return IronTypeBytes(type, weights, "b", &bytes) == IRON_OK ? (uint32_t)bytes : 0;
}

bool IronProductIsJoined(int kernel) { return IronKernelTable[kernel].when == is_joined; }

static bool is_of_panels_kernel(int kernel) {
  return IronKernelTable[kernel].operation == IRON_OPERATION_MATMUL_FUSED_BYTES;
}

bool IronProductIsLong(int kernel) {
  return IronKernelTable[kernel].geometry.threads == 32 * MATVEC_PANELS_SIMDGROUPS + 32;
}

uint32_t IronProductMemory(int kernel, const matmul_args *args) {
  if (IronProductIsJoined(kernel)) return 0;
  const IronKernelEntry *entry = &IronKernelTable[kernel];
  iron_dtype type = entry->types[0];
  uint32_t simdgroups = entry->geometry.threads / 32, k = args->k, memory;
  bool is_short = simdgroups != MATVEC_BYTES_SIMDGROUPS;
  if (is_of_panels_kernel(kernel)) {
    uint32_t of_256 = bytes_of(type, 256);
    bool paired = IronProductIsLong(kernel) && is_small(args, of_256);
    memory = panels_memory(simdgroups - 1, paired, of_256, k);
  } else if (IRON_TYPES(type) & IRON_TYPES_FLOAT) {
    memory = MATVEC_NUMBERS_MEMORY(simdgroups, is_short ? MATVEC_BYTES_FEW_STAGES : MATVEC_NUMBERS_STAGES, k);
  } else {
    uint32_t bytes = bytes_of(type, MATVEC_BYTES_SEGMENT);
    uint32_t stages = is_short ? MATVEC_BYTES_FEW_STAGES : MATVEC_BYTES_STAGES(bytes);
    memory = MATVEC_BYTES_MEMORY(simdgroups, stages, bytes, k);
  }
  return (memory + 15) / 16 * 16;
}

uint32_t IronProductRows(int kernel) {
  if (IronProductIsJoined(kernel)) return 1;
  return is_of_panels_kernel(kernel) ? MATVEC_PANELS_ROWS : MATVEC_BYTES_ROWS;
}

bool IronProductRotates(int kernel, uint32_t n, uint32_t groups) {
  if (IronProductIsJoined(kernel)) return true;
  uint32_t threads = IronKernelTable[kernel].geometry.threads, rows = IronProductRows(kernel);
  uint32_t at_once = is_of_panels_kernel(kernel) ? MATVEC_PANELS_AT_ONCE(threads / 32 - 1) : MATVEC_BYTES_TILES;
  uint64_t tiles = ((uint64_t)n + rows - 1) / rows, most = (tiles + groups - 1) / groups;
  return most <= at_once && most * rows / 2 <= threads;
}

static bool is_short_slices(int kernel) {
  return IronKernelTable[kernel].geometry.threads == 32 * MATMUL_SLICES_FEW_SIMDGROUPS;
}
uint32_t IronSlicesWidth(int kernel) {
  return is_short_slices(kernel) ? MATMUL_SLICES_SHORT_WIDTH : MATMUL_SLICES_WIDTH;
}
uint32_t IronSlicesMemory(int kernel) {
#define SLICES_MEMORY_OF(TYPE) \
  case IRON_##TYPE: return is_short ? SHORT_SLICES_MEMORY(MATMUL_SLICES_##TYPE) : SLICES_MEMORY(MATMUL_SLICES_##TYPE);
  bool is_short = is_short_slices(kernel);
  switch (IronKernelTable[kernel].types[0]) {
    SLICES_MEMORY_OF(Q8_0)
    SLICES_MEMORY_OF(Q4_0)
    SLICES_MEMORY_OF(Q4_K)
    SLICES_MEMORY_OF(Q6_K)
    SLICES_MEMORY_OF(F16)
    default: return 0;
  }
}

uint32_t IronHalvesMemory(int kernel) {
  IronCondition when = IronKernelTable[kernel].when;
  if (when == has_room_for_long_tiles) return HALVES_MEMORY(HALVES_DEPTH, HALVES_LONG_STAGES);
  bool deep = when == has_room_for_deep_tiles;
  return deep ? HALVES_MEMORY(HALVES_DEPTH, HALVES_STAGES) : HALVES_MEMORY(HALVES_SHORT_DEPTH, HALVES_SHORT_STAGES);
}
