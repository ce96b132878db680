#include <math.h>

#import "args.h"
#import "entry.h"
#import "operation.h"
#import "structs.h"

enum { MAX_HEAD_DIM = 256 }; /* what the kernel keeps of a head in registers */

static iron_status check_heads(const iron_attention *attention) {
  IRON_TRY(IronDimensionCheck("tokens", attention->tokens));
  IRON_TRY(IronDimensionCheck("heads", attention->heads));
  IRON_TRY(IronDimensionCheck("kv_heads", attention->kv_heads));
  IRON_TRY(IronDimensionCheck("head_dim", attention->head_dim));
  if (attention->head_dim > MAX_HEAD_DIM)
    return IronErrorReport(IRON_ERROR_SHAPE, "head_dim: %llu is more than %d", (unsigned long long)attention->head_dim,
                           MAX_HEAD_DIM);
  if (attention->heads % attention->kv_heads)
    return IronErrorReport(IRON_ERROR_SHAPE, "heads: %llu is not a multiple of kv_heads, %llu",
                           (unsigned long long)attention->heads, (unsigned long long)attention->kv_heads);
  if (attention->first_position > UINT32_MAX - attention->tokens)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "first_position: %llu and %llu tokens are more than a kernel can count",
                           (unsigned long long)attention->first_position, (unsigned long long)attention->tokens);
  if (!isfinite(attention->scale))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "scale: is %g", (double)attention->scale);
  return IRON_OK;
}

/* A cache: one plane per head. Packed, a position-major one has all heads of a position side by side, a head-major one
 * (with a head stride of its own) the positions of a head. */
static IronShape cache_shape(const iron_attention *attention, const iron_tensor *cache, uint64_t head_stride) {
  IronShape shape = {.rows = attention->first_position + attention->tokens,
                     .width = attention->head_dim,
                     .planes = attention->kv_heads,
                     .row_stride = cache->row_stride,
                     .plane_stride = head_stride ? head_stride : attention->head_dim};
  if (!shape.row_stride)
    shape.row_stride =
        shape.plane_stride == attention->head_dim ? attention->kv_heads * attention->head_dim : attention->head_dim;
  return shape;
}

iron_status iron_encode_attention(iron_commands *handle, const iron_attention *given) {
  IRON_ENTRY {
    iron_attention attention;
    IRON_READ_STRUCT(attention, given, "attention");
    IRON_RECORD(commands, handle);
    IRON_TRY(check_heads(&attention));

    IronOperand q, k, v, out;
    IronShape shape = {.rows = attention.tokens, .width = attention.heads * attention.head_dim};
    IronShape k_shape = cache_shape(&attention, &attention.k, attention.k_head_stride);
    IronShape v_shape = cache_shape(&attention, &attention.v, attention.v_head_stride);
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&q, "q", &attention.q, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&k, "k", &attention.k, k_shape, IRON_TYPES_CACHE, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&v, "v", &attention.v, v_shape, IRON_TYPES_CACHE, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &attention.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
    if (k.dtype != v.dtype)
      return IronErrorReport(IRON_ERROR_SHAPE, "v: is %s, k is %s", IronTypeName(v.dtype), IronTypeName(k.dtype));
    IRON_TRY(IronOperandsCheckOverlap(&out, &q, false));
    IRON_TRY(IronOperandsCheckOverlap(&out, &k, false));
    IRON_TRY(IronOperandsCheckOverlap(&out, &v, false));

    uint64_t positions = k.rows;
    attention_args arguments = {.q_token_stride = q.row_stride,
                                .q_head_stride = attention.head_dim,
                                .k_token_stride = k.row_stride,
                                .k_head_stride = k.plane_stride,
                                .v_token_stride = v.row_stride,
                                .v_head_stride = v.plane_stride,
                                .out_token_stride = out.row_stride,
                                .out_head_stride = attention.head_dim,
                                .tokens = (uint32_t)attention.tokens,
                                .heads = (uint32_t)attention.heads,
                                .kv_heads = (uint32_t)attention.kv_heads,
                                .head_dim = (uint32_t)attention.head_dim,
                                .first_position = (uint32_t)attention.first_position,
                                /* a window of all positions is none */
                                .window = attention.window >= positions ? 0 : (uint32_t)attention.window,
                                .scale = attention.scale == 0 ? 1 / sqrtf((float)attention.head_dim) : attention.scale};
    const IronOperand operands[] = {[ATTENTION_Q] = q, [ATTENTION_K] = k, [ATTENTION_V] = v, [ATTENTION_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_ATTENTION, k.dtype, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, ATTENTION_ARGS, &arguments, sizeof arguments,
                               (IronGrid){attention.heads, attention.tokens, 1});
  } IRON_LEAVE
}
