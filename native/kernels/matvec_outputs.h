/* What stands behind the product of one row in a model: a rotation with copies, a gate or a sum. Contract: matvec_bytes
 * in args.h. */
#ifndef IRON_KERNELS_MATVEC_OUTPUTS_H
#define IRON_KERNELS_MATVEC_OUTPUTS_H

/* The frequency of a pair of outputs, which depends on no memory. 0 where there is none. */
template <uint ROWS>
static inline float rotation_frequency_of(constant matvec_bytes_args &args, thread const tiles<ROWS> &mine, uint pair) {
  if (!args.rotary_dim || pair >= mine.count * ROWS / 2) return 0;
  uint row = mine.row(2 * pair / ROWS) + 2 * pair % ROWS;
  return rotation_frequency(row % args.rotary_dim / 2, args.rotary_dim, args.frequency_base);
}

/* Its cosine and sine. */
template <uint ROWS>
static inline void make_rotation(constant matvec_bytes_args &args, thread const tiles<ROWS> &mine, uint pair,
                                 float frequency, device const uint *positions, device const float *factors,
                                 threadgroup float2 *turns) {
  if (!args.rotary_dim || pair >= mine.count * ROWS / 2) return;
  uint row = mine.row(2 * pair / ROWS) + 2 * pair % ROWS, i = row % args.rotary_dim / 2;
  bool turned = row / args.rotary_dim < args.heads;
  turns[pair] = turned ? rotation(positions[0], args.frequency_scale, frequency, args.has_factors ? factors[i] : 1.0f)
                       : float2(1, 0);
}

/* The addend of thread `thread_index`'s first output. */
template <uint ROWS>
static inline float first_output_addend(constant matvec_bytes_args &args, thread const tiles<ROWS> &mine, uint at_once,
                                        device const float *addend, uint thread_index) {
  uint row = mine.row(args.gated ? thread_index / ROWS * 2 : thread_index / ROWS) + thread_index % ROWS;
  bool exists = args.has_addend && thread_index < min(mine.count, at_once) * ROWS && row < args.n;
  return exists ? addend[row] : 0.0f;
}

/* Sums up the parts that the SIMD-groups have of these tiles' rows, and writes the outputs. parts:
 * [tiles][SIMDGROUPS][ROWS]. */
template <uint ROWS, uint SIMDGROUPS>
static inline void write_outputs(constant matvec_bytes_args &args, thread const tiles<ROWS> &mine, uint from, uint to,
                                 threadgroup const float *parts, threadgroup const float2 *turns, float factor,
                                 float first_addend, device const float *addend, device float *product,
                                 device float *out, device uchar *first_copy, device uchar *second_copy,
                                 uint thread_index, uint threads) {
  uint pairs = args.rotary_dim ? (to - from) * ROWS / 2 : 0;
  for (uint i = thread_index; i < pairs; i += threads) {
    uint of = 2 * i / ROWS, r = 2 * i % ROWS, row = mine.row(from + of) + r;
    float2 value = 0;
#pragma unroll
    for (uint s = 0; s < SIMDGROUPS; ++s)
      value += *(threadgroup const float2 *)(parts + (of * SIMDGROUPS + s) * ROWS + r);
    if (row >= args.n) continue;
    value *= factor;
    if (args.has_addend) value += float2(addend[row], addend[row + 1]);
    float2 turn = turns[i];
    value = float2(value.x * turn.x - value.y * turn.y, value.x * turn.y + value.y * turn.x);
#pragma unroll
    for (uint j = 0; j < 2; ++j) {
      out[row + j] = value[j];
      if (args.copy_bytes == 4)
        store_rotated((device float *)first_copy, (device float *)second_copy, args, row + j, value[j]);
      else if (args.copy_bytes == 2)
        store_rotated((device half *)first_copy, (device half *)second_copy, args, row + j, value[j]);
    }
  }
  uint outputs = args.rotary_dim ? 0 : (to - from) * ROWS;
  for (uint i = thread_index; i < (args.gated ? outputs / 2 : outputs); i += threads) {
    uint of = args.gated ? i / ROWS * 2 : i / ROWS, r = i % ROWS, row = mine.row(from + of) + r;
    float sum = 0, other = 0;
#pragma unroll
    for (uint s = 0; s < SIMDGROUPS; ++s) {
      sum += parts[(of * SIMDGROUPS + s) * ROWS + r];
      if (args.gated) other += parts[((of + 1) * SIMDGROUPS + s) * ROWS + r];
    }
    if (row >= args.n) continue;
    sum *= factor;
    other *= factor;
    if (args.keeps_product) {
      product[row] = sum;
      if (args.gated) product[args.n + row] = other;
    }
    if (args.gated) sum = precise::divide(sum, 1.0f + precise::exp(-sum)) * other;
    if (args.has_addend) sum += from + i == thread_index ? first_addend : addend[row];
    out[row] = sum;
  }
}

#endif
