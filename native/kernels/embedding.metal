/* embedding_<B>: rows of a table, as float. Contract in args.h.
 *
 * Geometry: one thread for each element of out: dispatchThreads (width, rows, 1). */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"

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
EMBEDDING("embedding_q4_0", uchar, q4_0)
EMBEDDING("embedding_q4_1", uchar, q4_1)
EMBEDDING("embedding_q5_0", uchar, q5_0)
EMBEDDING("embedding_q5_1", uchar, q5_1)
EMBEDDING("embedding_q2_k", uchar, q2_k)
EMBEDDING("embedding_q3_k", uchar, q3_k)
EMBEDDING("embedding_q4_k", uchar, q4_k)
EMBEDDING("embedding_q5_k", uchar, q5_k)
EMBEDDING("embedding_q6_k", uchar, q6_k)
EMBEDDING("embedding_iq4_nl", uchar, iq4_nl)
