/* The argument structs and buffer indices of every kernel: the one contract that the bridge (which fills them), the
 * Metal Shading Language kernels (which define what they mean) and the software device's native kernels (which must
 * agree) share.
 *
 * Rules:
 *   - only 32-bit and 64-bit scalars, the 64-bit ones first, so that every compiler lays a struct out alike;
 *   - strides are in elements, not bytes; for block-quantised weights an element is one weight, so a row stride is a
 *     multiple of the block length;
 *   - the struct is the last binding of its kernel, passed by setBytes (at most 4 KiB).
 *
 * A kernel's name is its family and its types: `matmul_q8_0_f32` multiplies f32 activations with Q8_0 weights.
 */
#ifndef IRON_KERNELS_ARGS_H
#define IRON_KERNELS_ARGS_H

#ifdef __METAL_VERSION__
typedef uint iron_u32;
typedef int iron_i32;
typedef ulong iron_u64;
#else
#include <stdint.h>
typedef uint32_t iron_u32;
typedef int32_t iron_i32;
typedef uint64_t iron_u64;
#endif

/* matmul_<B>_<T>: c[z][i][j] = sum over x of A(i, x) * B(x, j) (+ bias[j])
 *   T: element type of a, bias and c: f32, f16. B: element type of b: f32, f16, bf16, or one of blocks.h. Accumulation
 *     in f32.
 *   A(i, x) = a[z * a_batch_stride + (transpose_a ? x * a_row_stride + i : i * a_row_stride + x)]
 *   B(x, j) = b[z * b_batch_stride + (transpose_b ? j * b_row_stride + x : x * b_row_stride + j)]
 *   A block type needs transpose_b = 1 and k whole blocks (weights are stored [n][k], as in LLaMA).
 *   A batch stride of 0 shares the operand between batches. */
enum { MATMUL_A = 0, MATMUL_B = 1, MATMUL_BIAS = 2, MATMUL_C = 3, MATMUL_ARGS = 4 };
typedef struct matmul_args {
  iron_u64 a_row_stride, a_batch_stride;
  iron_u64 b_row_stride, b_batch_stride;
  iron_u64 c_row_stride, c_batch_stride;
  iron_u32 m, n, k, batch;
  iron_u32 transpose_a, transpose_b;
  iron_u32 has_bias; /* 0: MATMUL_BIAS is bound to c and must not be read */
  iron_u32 written;  /* matmul_slices: b may be written by a kernel that stands before */
} matmul_args;

/* halves_<X>: out[i][j] = half(2^e(i) * x[i][j]) and scales[i] = 2^-e(i), so that no finite element of a row is too
 * large for a half: those of the largest elements, or of what their block's scale allows, are in 2^14 to 2^15. Rows of
 * out have `padded` >= width elements, a multiple of 64; behind the width they are 0. X: f32, f16, bf16, or one of
 * blocks.h. */
enum { HALVES_X = 0, HALVES_OUT = 1, HALVES_SCALES = 2, HALVES_ARGS = 3 };
typedef struct halves_args {
  iron_u64 row_stride;
  iron_u32 rows, width, padded;
  iron_u32 reserved;
} halves_args;

/* matmul_halves: c[i][j] = a_scales[i] * b_scales[j] * (sum over x of a[i][x] * b[j][x]) (+ bias[j]), a and b halves,
 * the rest f32. Sums are f32. k is a multiple of 64, and rows of a and b begin at multiples of 16 bytes. */
enum {
  MATMUL_HALVES_A = 0,
  MATMUL_HALVES_A_SCALES = 1,
  MATMUL_HALVES_B = 2,
  MATMUL_HALVES_B_SCALES = 3,
  MATMUL_HALVES_BIAS = 4,
  MATMUL_HALVES_C = 5,
  MATMUL_HALVES_ARGS = 6
};
typedef struct matmul_halves_args {
  iron_u64 a_row_stride, b_row_stride, c_row_stride;
  iron_u32 m, n, k;
  iron_u32 has_bias, has_b_scales; /* 0: bound to c and not read; b's scales are 1 */
  iron_u32 in_pairs;               /* elements of c from an even column on are at a multiple of 8 bytes */
} matmul_halves_args;
/* A threadgroup's rows and columns of c, how deep a step along k is, and how many steps are in threadgroup memory: on a
 * device that has much of it, and on others. */
enum { HALVES_TILE = 128, HALVES_THREADS = 256, HALVES_PADDING = 8 };
enum { HALVES_DEPTH = 64, HALVES_STAGES = 3, HALVES_SHORT_DEPTH = 16, HALVES_SHORT_STAGES = 2 };
enum { HALVES_LONG_STAGES = 5 };
/* Bytes of threadgroup memory. */
#define HALVES_MEMORY(depth, stages) ((stages) * 2 * HALVES_TILE * ((depth) + HALVES_PADDING) * 2)

/* matvec_bytes_<B>_f32: y[j] = sum over x of X(x) * B(x, j) for one row a of k activations and n or, gated, 2 n rows of
 * b, each in blocks and b_row_stride weights from the next. X is a, or with has_norm rms_norm's row of a with weights
 * `norm` and eps, which the kernel then also writes to `normed`; in either case rounded to 16 bits: each 32 neighbors
 * share a scale, the largest of them over 16256, and a value is off by at most half of it.
 *   out[j] = (gated ? silu(y[j]) * y[n + j] : y[j]) (+ addend[j]). keeps_product: product has all of y, and out may be
 *   its start; silu(x) = x / (1 + exp(-x)). n is a multiple of MATVEC_BYTES_ROWS if gated.
 * rotary_dim: out is then rotated and copied as rope_store does, which neither is gated nor keeps its product. Heads
 *   are of ROPE_PAIRING_INTERLEAVED, and n is even. A threadgroup has no more tiles of rows than it computes at once,
 *   and a thread for each pair of these. copy_bytes are those of an element of both copies: 4 are f32, 2 f16. Else
 *   rotary_dim is 0.
 * What is not asked for is bound to something else, neither read nor written.
 * matvec_bytes_short_<B>_f32: the same in less threadgroup memory.
 * matvec_numbers_<B>_f32, matvec_numbers_short_<B>_f32: the same for weights in numbers of 16 bits, and X is not
 * rounded.
 * matvec_panels_<B>_f32, matvec_panels_short_<B>_f32: the same as matvec_bytes, but X is rounded to 8 bits: each 32
 * neighbors share a scale, the largest of them over 127. n is a multiple of MATVEC_PANELS_ROWS if gated. */
enum {
  MATVEC_BYTES_A = 0,
  MATVEC_BYTES_B = 1,
  MATVEC_BYTES_NORM = 2,
  MATVEC_BYTES_NORMED = 3,
  MATVEC_BYTES_ADDEND = 4,
  MATVEC_BYTES_PRODUCT = 5,
  MATVEC_BYTES_OUT = 6,
  MATVEC_BYTES_POSITIONS = 7,
  MATVEC_BYTES_FACTORS = 8,
  MATVEC_BYTES_FIRST = 9,
  MATVEC_BYTES_SECOND = 10,
  MATVEC_BYTES_ARGS = 11
};
typedef struct matvec_bytes_args {
  iron_u64 b_row_stride;
  iron_u32 n, k;
  float eps;
  iron_u32 has_norm, has_addend, keeps_product, gated;
  iron_u32 heads, rotary_dim;
  float frequency_base, frequency_scale;
  iron_u32 has_factors, copy_bytes;
  iron_u32 first_start, first_width, second_start, second_width;
  iron_u32 written; /* b or norm may be written by a kernel that stands before */
} matvec_bytes_args;
/* matvec_joined_<B>_f32: the same for weights of each type. X is not rounded, and has_norm is 0. b's rows are those of
 * up to three matrices. Row second_row is the first one of the second matrix, third_row that of the third. A matrix
 * that is not there has no row, and is bound to something else. */
enum { MATVEC_JOINED_SECOND_B = 11, MATVEC_JOINED_THIRD_B = 12, MATVEC_JOINED_ARGS = 13 };
typedef struct matvec_joined_args {
  matvec_bytes_args product;
  iron_u32 second_row, third_row;
} matvec_joined_args;
/* How threadgroups share out the work, of which the host must know the threadgroup memory: for each SIMD-group a ring
 * of stages, which are a segment of some rows; 80 bytes for each 32 activations; the sums, and an angle for each two of
 * the rows. `bytes` are those of a
 * segment of one row, `activations` those of all activations. */
enum {
  MATVEC_BYTES_SIMDGROUPS = 16,
  MATVEC_BYTES_FEW_SIMDGROUPS = 2,
  MATVEC_BYTES_FEW_STAGES = 2,
  MATVEC_BYTES_SEGMENT = 1024,
  MATVEC_BYTES_ROWS = 4,
  MATVEC_BYTES_TILES = 64
};
#define MATVEC_BYTES_STAGES(bytes) ((bytes) > 1024 ? 2 : 3)
#define MATVEC_RING_MEMORY(simdgroups, stages, bytes, activations)                                            \
  ((simdgroups) * (stages) * MATVEC_BYTES_ROWS * (((bytes) + 15) / 16 * 16) + (activations) +                 \
   (MATVEC_BYTES_TILES * MATVEC_BYTES_ROWS + 1) * (simdgroups) * 4 + 16 +                                    \
   MATVEC_BYTES_TILES * MATVEC_BYTES_ROWS / 2 * 8)
#define MATVEC_BYTES_MEMORY(simdgroups, stages, bytes, k) \
  MATVEC_RING_MEMORY(simdgroups, stages, bytes, (k) / 32 * 80)
/* Of numbers a segment is shorter, and an activation has four bytes. */
enum { MATVEC_NUMBERS_SEGMENT = 256, MATVEC_NUMBERS_STAGES = 4 };
#define MATVEC_NUMBERS_MEMORY(simdgroups, stages, k) \
  MATVEC_RING_MEMORY(simdgroups, stages, MATVEC_NUMBERS_SEGMENT * 2, (k) * 4)

/* How threadgroups of matvec_panels share out the work: a ring of stages, which are a segment of each row of a panel;
 * 48 bytes for each 32 activations; of the panels that are computed at once the sums of each SIMD-group, and an angle
 * for each two rows; the sums of squares; two barriers for each stage, of which there are 32 at most. `bytes` are those
 * of a segment of one row, and `of_256` those of 256 weights. Rows of a stage are an odd multiple of 16 bytes apart, so
 * that eight of them lie in different banks. */
enum {
  MATVEC_PANELS_ROWS = 16,
  MATVEC_PANELS_SIMDGROUPS = 8,
  MATVEC_PANELS_FEW_SIMDGROUPS = 2,
  MATVEC_PANELS_RING = 172032,
  MATVEC_PANELS_PAIRED_RING = 93440, /* two fit on a core, with all else for k of up to 8,192 */
  MATVEC_PANELS_PAIRED_SEGMENT = 2048,
  MATVEC_PANELS_SHORT_RING = 27136
};
#define MATVEC_PANELS_AT_ONCE(simdgroups) ((simdgroups) == MATVEC_PANELS_SIMDGROUPS ? 16 : 8)
#define MATVEC_PANELS_LONG_SEGMENT(of_256) ((of_256) > 256 ? 2048 : 4096)
#define MATVEC_PANELS_SHORT_SEGMENT(of_256) ((of_256) % 16 ? 2048 : 512)
#define MATVEC_PANELS_PITCH(bytes) (((bytes) + 111) / 128 * 128 + 16)
#define MATVEC_PANELS_MEMORY(simdgroups, ring, bytes, k)                                                          \
  ((ring) / (MATVEC_PANELS_ROWS * MATVEC_PANELS_PITCH(bytes)) *                                                   \
       (MATVEC_PANELS_ROWS * MATVEC_PANELS_PITCH(bytes) + 16) +                                                   \
   (k) / 32 * 48 + (MATVEC_PANELS_AT_ONCE(simdgroups) * MATVEC_PANELS_ROWS + 1) * (simdgroups) * 4 +              \
   MATVEC_PANELS_AT_ONCE(simdgroups) * MATVEC_PANELS_ROWS / 2 * 8)

/* matmul_panels_<B>_f32: products of 2 to 16 rows of activations, which matmul_panels_bytes has made bytes, with one or
 * two planes of n rows of b, b_row_stride weights from each other:
 *   y[p][i][j] = sum over x of a[i][x] * B(b, p n + j, x) (+ bias[j]),   c[p][i][j] = y[p][i][j]
 *   has_addend: out[i][j] = y[0][i][j] + addend[i][j]. gated: out[i][j] = silu(y[0][i][j]) * y[1][i][j], and out may be
 *   the start of c. Both have packed rows of n; silu(x) = x / (1 + exp(-x)). Planes of c are m rows apart. With two of
 *   them n is a multiple of MATMUL_PANELS_ROWS.
 * With several slices, of at most MATMUL_PANELS_SLICE weights each, c has for each of them a sum over it, packed:
 * [slice][i][j], and neither bias, nor addend, nor a second plane.
 * matmul_panels_sum: from such sums in MATMUL_PANELS_A what c and out are above.
 * What is not asked for is bound to something else, neither read nor written.
 * matmul_panels_bytes: of m rows of k activations, and zeros up to 16 of them, bytes: each 32 neighbors share a scale,
 * the largest of them over 127. out has first the bytes, [block of 32][row][32], with words in the order 0 4 1 5 2 6 3
 * 7. Then it has two f32, [block][row]: the scale over MATMUL_PANELS_SCALE, whose last two bits are 0, and that times
 * -1.5 * 2^23. Behind them is that scale times the sum of the bytes, [block][row]. MATMUL_PANELS_A_BYTES in all. */
enum {
  MATMUL_PANELS_A = 0,
  MATMUL_PANELS_B = 1,
  MATMUL_PANELS_BIAS = 2,
  MATMUL_PANELS_ADDEND = 3,
  MATMUL_PANELS_C = 4,
  MATMUL_PANELS_OUT = 5,
  MATMUL_PANELS_ARGS = 6
};
typedef struct matmul_panels_args {
  iron_u64 b_row_stride, c_row_stride;
  iron_u32 m, n, k;
  iron_u32 planes, slices;
  iron_u32 has_bias, has_addend, gated;
  iron_u32 written; /* b may be written by a kernel that stands before */
  iron_u32 reserved;
} matmul_panels_args;
enum { MATMUL_PANELS_BYTES_A = 0, MATMUL_PANELS_BYTES_OUT = 1, MATMUL_PANELS_BYTES_ARGS = 2 };
typedef struct matmul_panels_bytes_args {
  iron_u64 a_row_stride;
  iron_u32 m, k;
} matmul_panels_bytes_args;
/* How threadgroups share out the work: a ring of stages; the scales of a slice's activations; places for the sums of
 * panels, of each SIMD-group; barriers for all of these. */
enum {
  MATMUL_PANELS_ROWS = 16, /* of a, and of b at a time */
  MATMUL_PANELS_SIMDGROUPS = 16,
  MATMUL_PANELS_SLICE = 4096, /* the longest */
  MATMUL_PANELS_RING = 148480,
  MATMUL_PANELS_MOST_STAGES = 4,
  MATMUL_PANELS_PLACES = 4,  /* so that nobody overwrites what another one of the team has still to read */
  MATMUL_PANELS_SCALE = 4096 /* so that 1.5 * 2^23 times a scale is finite */
};
#define MATMUL_PANELS_A_BYTES(k) ((k) / 32 * 44 * MATMUL_PANELS_ROWS)
#define MATMUL_PANELS_MEMORY                                                                                  \
  (MATMUL_PANELS_RING + MATMUL_PANELS_SLICE / 32 * 8 * MATMUL_PANELS_ROWS +                                   \
   MATMUL_PANELS_PLACES * MATMUL_PANELS_SIMDGROUPS * (MATMUL_PANELS_ROWS * MATMUL_PANELS_ROWS * 4 + 8) +      \
   MATMUL_PANELS_MOST_STAGES * 16)

/* matmul_slices_<B>_f32: matmul of a batch of one with transpose_b for few rows of a, whose sum is over a slice of k:
 *   c[slice][i][j] = sum over x of the slice of a[i][x] * B(b, j, x) (+ bias[j])
 * c_batch_stride is from slice to slice; where there are several, has_bias is 0. Activations have 22 bits, the first of
 * which is that of the largest in the row's slice. matmul_slices_short_<B>_f32: the same in less threadgroup memory.
 * matmul_slices_sum: c[i][j] = sum over the slices of parts[slice][i][j] (+ bias[j]); accumulate's operands and struct,
 * whose batch is how many slices there are. */
enum {
  MATMUL_SLICES_ROWS = 16, /* of a and of b at a time */
  MATMUL_SLICES_PADDING = 8,
  MATMUL_SLICES_WIDTH = 1024,
  MATMUL_SLICES_SIMDGROUPS = 8,
  MATMUL_SLICES_SHORT_WIDTH = 256,
  MATMUL_SLICES_FEW_SIMDGROUPS = 2,
  MATMUL_SLICES_FEW_STAGES = 1
};
/* Bytes of a row's chunk in a ring: an odd multiple of 16, so that rows begin in different banks. */
enum {
  MATMUL_SLICES_Q4_0 = 144,
  MATMUL_SLICES_Q8_0 = 272,
  MATMUL_SLICES_Q4_K = 144,
  MATMUL_SLICES_Q6_K = 240,
  MATMUL_SLICES_F16 = 272
};
#define MATMUL_SLICES_STAGES(bytes) ((bytes) > 144 ? 4 : 6)
#define MATMUL_SLICES_MEMORY(width, simdgroups, stages, bytes)                                       \
  (MATMUL_SLICES_ROWS * (((width) + MATMUL_SLICES_PADDING) * 4 + 4 + (width) / 32 * 4 +              \
                         (simdgroups) * (stages) * (bytes)))

/* accumulate_<T>: c[z][i][j] = alpha * product[z][i][j] + beta * c[z][i][j] (+ bias[j]), T: f32, f16, computed in f32.
 * product is packed, and c is not read where beta is 0. */
enum { ACCUMULATE_PRODUCT = 0, ACCUMULATE_BIAS = 1, ACCUMULATE_C = 2, ACCUMULATE_ARGS = 3 };
typedef struct accumulate_args {
  iron_u64 c_row_stride, c_batch_stride;
  iron_u32 m, n, batch;
  iron_u32 has_bias; /* 0: ACCUMULATE_BIAS is bound to c and must not be read */
  float alpha, beta;
} accumulate_args;

/* embedding_<B>: out[i][:] = scale * table[ids[i]][:] as f32. B: f32, f16, bf16, or one of blocks.h. ids are u32.
 * An id >= vocab gives a row of NaN: visible at once, never another token's row. */
enum { EMBEDDING_TABLE = 0, EMBEDDING_IDS = 1, EMBEDDING_OUT = 2, EMBEDDING_ARGS = 3 };
typedef struct embedding_args {
  iron_u64 table_row_stride, out_row_stride;
  iron_u32 rows, width, vocab;
  float scale;
} embedding_args;

/* rms_norm: out[i][j] = x[i][j] / sqrt(mean over j of x[i][j]^2 + eps) * weight[j], all f32; out may be x.
 * Zhang & Sennrich 2019, arXiv:1910.07467, equation 4. */
enum { RMS_NORM_X = 0, RMS_NORM_WEIGHT = 1, RMS_NORM_OUT = 2, RMS_NORM_ARGS = 3 };
typedef struct rms_norm_args {
  iron_u64 x_row_stride, out_row_stride;
  iron_u32 rows, width;
  float eps;
  iron_u32 reserved;
} rms_norm_args;

/* rope: rotates, in place, the first rotary_dim elements of each head of each token of x (f32) by
 *   theta(i) = positions[token] * frequency_scale * frequency_base^(-2 i / rotary_dim) / (has_factors ? factors[i] : 1)
 * for pair i of rotary_dim / 2. Su et al. 2021, arXiv:2104.09864, section 3.2.2.
 *   pairing 0 (interleaved): pair i is elements 2 i and 2 i + 1. GGUF's llama tensors are stored for this one.
 *   pairing 1 (half): pair i is elements i and i + rotary_dim / 2. Hugging Face's order; qwen2 and qwen3 in GGUF. */
enum { ROPE_X = 0, ROPE_POSITIONS = 1, ROPE_FACTORS = 2, ROPE_ARGS = 3 };
enum { ROPE_PAIRING_INTERLEAVED = 0, ROPE_PAIRING_HALF = 1 };
typedef struct rope_args {
  iron_u64 token_stride, head_stride;
  iron_u32 tokens, heads, rotary_dim, pairing;
  float frequency_base, frequency_scale;
  iron_u32 has_factors; /* 0: ROPE_FACTORS is bound to x and must not be read */
  iron_u32 reserved;
} rope_args;

/* rope_store_<T>: rope of one token, each of whose heads is rotated as a whole, and then up to two copies of neighbors
 * of it and of what follows it, all_heads heads in all, to elements of type T: f32, f16.
 *   first[e] = T(x[first_start + e]) for e < first_width, and so second. A width of 0 is no copy. */
enum {
  ROPE_STORE_X = 0,
  ROPE_STORE_POSITIONS = 1,
  ROPE_STORE_FACTORS = 2,
  ROPE_STORE_FIRST = 3,
  ROPE_STORE_SECOND = 4,
  ROPE_STORE_ARGS = 5
};
typedef struct rope_store_args {
  iron_u32 heads, all_heads, rotary_dim, pairing;
  float frequency_base, frequency_scale;
  iron_u32 has_factors;
  iron_u32 first_start, first_width, second_start, second_width;
  iron_u32 reserved;
} rope_store_args;

/* attention_<C>: causal grouped-query attention, q and out f32, keys and values of type C (f32, f16, bf16, q8_0).
 *   out[t][h] = softmax over j of (q[t][h] . k[j][h / (heads / kv_heads)] * scale) applied to v[j][...]
 *   With softcap > 0 a score s is softcap * tanh(s / softcap) instead (Gemma 2, arXiv:2408.00118, section 2).
 *   Query t stands at absolute position first_position + t and sees keys j <= its position and, when window > 0,
 *   j > position - window. Keys 0 .. first_position + tokens - 1 must be in the cache.
 *   heads is a multiple of kv_heads; head_dim <= 256. A key whose score is -infinity has no weight; without any weight
 *   out is NaN.
 * attention_tiled_<D>_<C>: the same for head_dim <= D. A value that is not finite may reach queries before its position
 * as well.
 * attention_quads_<D>_<C>: the same as attention_tiled.
 * attention_split_<C>: the same up to the division, for pieces of the keys. Of the keys that query t sees, piece s is
 *   the split_length from the (s split_length)-th on; `splits` pieces must cover them. ATTENTION_OUT is packed rows of
 *   head_dim + 2 f32, [t][h][s]: the sum over j of w(j) v[j], the largest score, the sum of w(j) = exp(score(j) -
 *   largest); this is 0 without weights.
 * attention_wide_<D>_<C>: the same as attention_split for head_dim D; a single piece is the whole attention, and out is
 *   attention's. attention_grouped_<D>_<C>: the same, ATTENTION_GROUPED heads at once.
 *   attention_wide_merge_<D>: as attention_merge, of at most ATTENTION_WIDE_PIECES pieces.
 * attention_merge: puts these rows together: out[t][h]. Of the arguments it reads the layout of out, tokens, heads,
 * head_dim, splits. */
enum { ATTENTION_Q = 0, ATTENTION_K = 1, ATTENTION_V = 2, ATTENTION_OUT = 3, ATTENTION_ARGS = 4 };
enum { ATTENTION_MERGE_PARTS = 0, ATTENTION_MERGE_OUT = 1, ATTENTION_MERGE_ARGS = 2 };
enum { ATTENTION_GROUPED = 4, ATTENTION_WIDE_PIECES = 32 };
/* Threadgroups whose registers a core has at once. */
#define ATTENTION_WIDE_RESIDENT(head_dim, heads_at_once) ((heads_at_once) > 1 ? 2 : (head_dim) > 64 ? 3 : 4)
typedef struct attention_args {
  iron_u64 q_token_stride, q_head_stride;
  iron_u64 k_token_stride, k_head_stride;
  iron_u64 v_token_stride, v_head_stride;
  iron_u64 out_token_stride, out_head_stride;
  iron_u32 tokens, heads, kv_heads, head_dim;
  iron_u32 first_position, window;
  float scale;
  iron_u32 splits, split_length;
  float softcap;
  iron_u32 heads_at_once; /* of attention_wide 1, of attention_grouped ATTENTION_GROUPED, of others 0 */
} attention_args;

/* attention_texts_<D>_<C>: attention_wide_<D>_<C> of one token each of common.tokens texts, with its bindings. The
 *   operands of a text begin at bytes of its own behind them. What a text has is not read of `common`. A text may have
 *   no keys in its last pieces. Rows of pieces are packed, [text][h][s].
 * attention_texts_grouped_<D>_<C>: the same, ATTENTION_GROUPED heads at once.
 * attention_texts_merge_<D>: attention_wide_merge_<D> of these rows, with its bindings. */
enum { ATTENTION_TEXTS = 32 };
typedef struct attention_text {
  iron_u64 q, k, v, out;
  iron_u32 position, window, split_length;
  iron_u32 reserved;
} attention_text;
typedef struct attention_texts_args {
  attention_args common;
  attention_text texts[ATTENTION_TEXTS];
} attention_texts_args;

/* add: out[i] = a[i] + b[i].
 * silu_mul: out[i] = a[i] / (1 + exp(-a[i])) * b[i]: SwiGLU's gate times up. Shazeer 2020, arXiv:2002.05202.
 * gelu_mul: out[i] = gelu(a[i]) * b[i], gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))): GeGLU.
 * f32; out may be a or b. */
enum { ELEMENTWISE_A = 0, ELEMENTWISE_B = 1, ELEMENTWISE_OUT = 2, ELEMENTWISE_ARGS = 3 };
typedef struct elementwise_args {
  iron_u64 count;
} elementwise_args;

/* relu: f(x) = x < 0 ? 0 : x.   sigmoid: f(x) = 1 / (1 + exp(-x)).   tanh: f(x) = tanh(x).
 * out[i] = scale * f(x[i] / scale), f32; scale > 0; out may be x. */
enum { ACTIVATION_X = 0, ACTIVATION_OUT = 1, ACTIVATION_ARGS = 2 };
typedef struct activation_args {
  iron_u64 count;
  float scale;
  iron_u32 reserved;
} activation_args;

/* add_bias: out[i][j] = x[i][j] + bias[j], f32; out may be x. */
enum { ADD_BIAS_X = 0, ADD_BIAS_BIAS = 1, ADD_BIAS_OUT = 2, ADD_BIAS_ARGS = 3 };
typedef struct add_bias_args {
  iron_u64 x_row_stride, out_row_stride;
  iron_u32 rows, width;
} add_bias_args;

/* relu_backward, sigmoid_backward, tanh_backward: elementwise_args, with a the function's output y and b the gradient
 * of a loss with respect to it. out is the gradient with respect to the function's input:
 *   relu: y > 0 ? b : 0.   sigmoid: b * y * (1 - y).   tanh: b * (1 - y) * (1 + y).
 * f32; out may be a or b. A y that is NaN makes NaN. */

/* silu_mul_backward, gelu_mul_backward: of out[i] = gate(a[i]) * b[i], as silu_mul and gelu_mul have it,
 *   a_gradient[i] = gradient[i] * b[i] * gate'(a[i]), b_gradient[i] = gradient[i] * gate(a[i]). f32. */
enum { GATED_A = 0, GATED_B = 1, GATED_GRADIENT = 2, GATED_A_GRADIENT = 3, GATED_B_GRADIENT = 4, GATED_ARGS = 5 };
typedef struct gated_args {
  iron_u64 count;
} gated_args;

/* rms_norm_backward: with r[i] = 1 / sqrt(mean over j of x[i][j]^2 + eps), all f32,
 *   products[i][j] = gradient[i][j] * x[i][j] * r[i], whose sum over i is the gradient of weight[j],
 *   x_gradient[i][j] = r[i] * (g[i][j] - x[i][j] * r[i]^2 * mean over j of g[i][j] * x[i][j]) with
 *   g[i][j] = gradient[i][j] * weight[j]. */
enum {
  RMS_NORM_BACKWARD_X = 0,
  RMS_NORM_BACKWARD_WEIGHT = 1,
  RMS_NORM_BACKWARD_GRADIENT = 2,
  RMS_NORM_BACKWARD_X_GRADIENT = 3,
  RMS_NORM_BACKWARD_PRODUCTS = 4,
  RMS_NORM_BACKWARD_ARGS = 5
};
typedef struct rms_norm_backward_args {
  iron_u64 x_row_stride, gradient_row_stride, x_gradient_row_stride, products_row_stride;
  iron_u32 rows, width;
  float eps;
  iron_u32 reserved;
} rms_norm_backward_args;

/* softmax_backward: with y the output of softmax and gradient of it,
 *   out[i][j] = scale * y[i][j] * (gradient[i][j] - sum over j of y[i][j] * gradient[i][j]).
 * f32; out may be gradient. */
enum { SOFTMAX_BACKWARD_Y = 0, SOFTMAX_BACKWARD_GRADIENT = 1, SOFTMAX_BACKWARD_OUT = 2, SOFTMAX_BACKWARD_ARGS = 3 };
typedef struct softmax_backward_args {
  iron_u64 y_row_stride, gradient_row_stride, out_row_stride;
  iron_u32 rows, width;
  float scale;
  iron_u32 reserved;
} softmax_backward_args;

/* embedding_backward: out[v] = scale * sum of gradient[i] over the rows i, in order, whose ids[i], a u32, is v. An id
 * >= vocab is of no row. f32. */
enum {
  EMBEDDING_BACKWARD_IDS = 0,
  EMBEDDING_BACKWARD_GRADIENT = 1,
  EMBEDDING_BACKWARD_OUT = 2,
  EMBEDDING_BACKWARD_ARGS = 3
};
typedef struct embedding_backward_args {
  iron_u64 gradient_row_stride, out_row_stride;
  iron_u32 rows, width, vocab;
  float scale;
} embedding_backward_args;

/* The gradients of attention with first_position 0, without a window and a softcap, all f32: q, out, gradient (of out)
 * and q_gradient are tokens of heads, the others tokens of kv_heads, each of head_dim <= 256 elements side by side.
 * With g = h / (heads / kv_heads), s[t][h][j] = scale * q[t][h] . k[j][g] for j <= t, p the softmax of s over j:
 * attention_backward_q:
 *   sums[t][h] = log of the sum over j of exp(s), and gradient[t][h] . out[t][h]
 *   q_gradient[t][h] = sum over j of d[t][h][j] * k[j][g], d = scale * p * (gradient[t][h] . v[j][g] - sums[t][h][1])
 * attention_backward_kv, which reads these sums, packed:
 *   k_gradient[j][g] = sum over t >= j and the heads h of g of d[t][h][j] * q[t][h]
 *   v_gradient[j][g] = the same of p[t][h][j] * gradient[t][h] */
enum {
  ATTENTION_BACKWARD_Q = 0,
  ATTENTION_BACKWARD_K = 1,
  ATTENTION_BACKWARD_V = 2,
  ATTENTION_BACKWARD_GRADIENT = 3,
  ATTENTION_BACKWARD_SUMS = 4,
  ATTENTION_BACKWARD_OUT = 5,
  ATTENTION_BACKWARD_Q_GRADIENT = 6,
  ATTENTION_BACKWARD_K_GRADIENT = 5,
  ATTENTION_BACKWARD_V_GRADIENT = 6,
  ATTENTION_BACKWARD_ARGS = 7
};
typedef struct attention_backward_args {
  iron_u64 q_stride, k_stride, v_stride, gradient_stride, out_stride;
  iron_u64 q_gradient_stride, k_gradient_stride, v_gradient_stride;
  iron_u32 tokens, heads, kv_heads, head_dim;
  float scale;
  iron_u32 reserved;
} attention_backward_args;

/* sum_rows: out[j] = sum over i of x[i][j], f32. */
enum { SUM_ROWS_X = 0, SUM_ROWS_OUT = 1, SUM_ROWS_ARGS = 2 };
typedef struct sum_rows_args {
  iron_u64 x_row_stride;
  iron_u32 rows, width;
} sum_rows_args;

/* sum_squares: out[i] = sum over j of x[i][j]^2, f32. */
enum { SUM_SQUARES_X = 0, SUM_SQUARES_OUT = 1, SUM_SQUARES_ARGS = 2 };
typedef struct sum_squares_args {
  iron_u64 x_row_stride;
  iron_u32 rows, width;
} sum_squares_args;

/* clip_norm: x[i] *= scale * min(1, norm / (|scale| * sqrt(squares[0]) + CLIP_NORM_EPS)), f32; a NaN in squares makes
 * NaN. Pascanu et al. 2012, arXiv:1211.5063, algorithm 1, in PyTorch's form, of gradients that are scaled first. */
enum { CLIP_NORM_SQUARES = 0, CLIP_NORM_X = 1, CLIP_NORM_ARGS = 2 };
#define CLIP_NORM_EPS 1e-6f
typedef struct clip_norm_args {
  iron_u64 count;
  float norm, scale;
} clip_norm_args;

/* mse: with d[i][j] = prediction[i][j] - target[i][j], all f32,
 *   loss[i] = scale * sum over j of d[i][j]^2, gradient[i][j] = 2 * scale * d[i][j]. */
enum { MSE_PREDICTION = 0, MSE_TARGET = 1, MSE_GRADIENT = 2, MSE_LOSS = 3, MSE_ARGS = 4 };
typedef struct mse_args {
  iron_u64 prediction_row_stride, target_row_stride, gradient_row_stride;
  iron_u32 rows, width;
  float scale;
  iron_u32 reserved;
} mse_args;

/* cross_entropy: with p[i][j] = exp(logits[i][j]) / sum over j of exp(logits[i][j]) and y = labels[i], a u32,
 *   loss[i] = -scale * log(p[i][y]), gradient[i][j] = scale * (p[i][j] - (j == y ? 1 : 0)).
 * A label of CROSS_ENTROPY_IGNORED makes zeros of both, and any other one >= width NaN. */
enum {
  CROSS_ENTROPY_LOGITS = 0,
  CROSS_ENTROPY_LABELS = 1,
  CROSS_ENTROPY_GRADIENT = 2,
  CROSS_ENTROPY_LOSS = 3,
  CROSS_ENTROPY_ARGS = 4
};
#define CROSS_ENTROPY_IGNORED 0xffffffffu
typedef struct cross_entropy_args {
  iron_u64 logits_row_stride, gradient_row_stride;
  iron_u32 rows, width;
  float scale;
  iron_u32 reserved;
} cross_entropy_args;

/* sgd_step: with g = gradient[i] + weight_decay * weights[i],
 *   velocity[i] = momentum * velocity[i] + g, weights[i] -= learning_rate * velocity[i]. f32.
 * Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", in PyTorch's form. */
enum { SGD_GRADIENT = 0, SGD_WEIGHTS = 1, SGD_VELOCITY = 2, SGD_ARGS = 3 };
typedef struct sgd_args {
  iron_u64 count;
  float learning_rate, momentum, weight_decay;
  iron_u32 reserved;
} sgd_args;

/* adam_step: with g = gradient[i],
 *   first_moment[i] = beta1 * first_moment[i] + (1 - beta1) * g,
 *   second_moment[i] = beta2 * second_moment[i] + (1 - beta2) * g^2,
 *   weights[i] = decay * weights[i] - step_size * first_moment[i] / (sqrt(second_moment[i]) / root + eps). f32.
 * For step t = 1, 2, ... decay is 1 - learning_rate * weight_decay, step_size learning_rate / (1 - beta1^t) and root
 * sqrt(1 - beta2^t). Kingma & Ba 2014, arXiv:1412.6980, algorithm 1; the decay of Loshchilov & Hutter 2017,
 * arXiv:1711.05101, algorithm 2. */
enum { ADAM_GRADIENT = 0, ADAM_WEIGHTS = 1, ADAM_FIRST_MOMENT = 2, ADAM_SECOND_MOMENT = 3, ADAM_ARGS = 4 };
typedef struct adam_args {
  iron_u64 count;
  float decay, beta1, beta2, eps, step_size, root;
} adam_args;

/* transpose_<N>: out[j][i] = x[i][j], elements of N bits (16, 32). x has `rows` rows of `width` elements. */
enum { TRANSPOSE_X = 0, TRANSPOSE_OUT = 1, TRANSPOSE_ARGS = 2 };
typedef struct transpose_args {
  iron_u64 x_row_stride, out_row_stride;
  iron_u32 rows, width;
} transpose_args;

/* softmax: out[i][j] = exp(scale * x[i][j] - max) / sum over j, per row, f32; out may be x. A row of nothing but
 * -infinity gives NaN, as the formula does. */
enum { SOFTMAX_X = 0, SOFTMAX_OUT = 1, SOFTMAX_ARGS = 2 };
typedef struct softmax_args {
  iron_u64 x_row_stride, out_row_stride;
  iron_u32 rows, width;
  float scale;
  iron_u32 reserved;
} softmax_args;

/* copy_<S>_<D>: dst[i][j] = (D) src[i][j]. S, D: f32, f16, bf16 (round to nearest even); these to q8_0; q8_0 to f32;
 * u32 to u32. To q8_0, as quantize_row_q8_0_ref of ggml-quants.c: for each 32 elements the scale d = max |x| / 127,
 * stored as f16, and round(x * (1 / d)), halves away from zero, where 1 / d is 0 for a d that is subnormal or 0. When
 * one of the 32 is not finite, the scale is NaN and the rest 0. */
enum { COPY_SRC = 0, COPY_DST = 1, COPY_ARGS = 2 };
typedef struct copy_args {
  iron_u64 src_row_stride, dst_row_stride;
  iron_u32 rows, width;
} copy_args;

/* copies_<S>_<D>: copy_<S>_<D> of `count` rows, each from and to bytes of its own behind the bindings. A destination is
 * in one of two buffers. */
enum { COPIES_SRC = 0, COPIES_FIRST = 1, COPIES_SECOND = 2, COPIES_ARGS = 3 };
enum { COPIES_ROWS = 64 };
typedef struct copies_row {
  iron_u64 src, dst;
  iron_u32 in_second;
  iron_u32 reserved;
} copies_row;
typedef struct copies_args {
  copies_row rows[COPIES_ROWS];
  iron_u32 count, width;
} copies_args;

/* argmax: out[i] = the lowest j with the largest x[i][j], as u32; NaN is less than everything. x is f32. */
enum { ARGMAX_X = 0, ARGMAX_OUT = 1, ARGMAX_ARGS = 2 };
typedef struct argmax_args {
  iron_u64 x_row_stride;
  iron_u32 rows, width;
} argmax_args;

#endif
