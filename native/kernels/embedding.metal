/* embedding_<B>: rows of a table, as float. Contract in args.h.
 *
 * Geometry: one thread for each element of out: dispatchThreads (width, rows, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"

/* The elements of the table, widened to float. */
struct plain {
  static float at(device const float *values, ulong index) { return values[index]; }
  static float at(device const half *values, ulong index) { return float(values[index]); }
};

/* bfloat16 is the upper half of a float. Metal 3.0 has no type of that name. */
struct bfloat16 {
  static float at(device const ushort *values, ulong index) { return as_type<float>(uint(values[index]) << 16); }
};

/* GGML's block of 32 weights: a half scale and 32 signed bytes. 34 bytes, so it is read byte by byte. */
struct q8_0 {
  static float at(device const uchar *blocks, ulong index) {
    device const uchar *block = blocks + index / 32 * 34;
    float scale = float(as_type<half>(ushort(ushort(block[0]) | ushort(block[1]) << 8)));
    return scale * float(as_type<char>(block[2 + index % 32]));
  }
};

template <typename Stored, typename Reader>
[[kernel]] void embedding(device const Stored *table [[buffer(EMBEDDING_TABLE)]],
                          device const uint *ids [[buffer(EMBEDDING_IDS)]],
                          device float *out [[buffer(EMBEDDING_OUT)]],
                          constant embedding_args &args [[buffer(EMBEDDING_ARGS)]],
                          uint2 position [[thread_position_in_grid]]) {
  uint j = position.x, row = position.y;
  if (j >= args.width || row >= args.rows) return;
  uint id = ids[row];
  float value = as_type<float>(0x7fc00000u); /* NaN, which fast math leaves alone in this form */
  if (id < args.vocab) value = Reader::at(table, id * args.table_row_stride + j);
  out[row * args.out_row_stride + j] = value;
}

#define EMBEDDING(NAME, STORED, READER) \
  template [[host_name(NAME)]] [[kernel]] decltype(embedding<STORED, READER>) embedding<STORED, READER>;

EMBEDDING("embedding_f32", float, plain)
EMBEDDING("embedding_f16", half, plain)
EMBEDDING("embedding_bf16", ushort, bfloat16)
EMBEDDING("embedding_q8_0", uchar, q8_0)
