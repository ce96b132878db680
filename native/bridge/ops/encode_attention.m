#include <math.h>

#import "args.h"
#import "attention_pieces.h"
#import "base/entry.h"
#import "heads.h"
#import "joined_attentions.h"
#import "operation.h"
#import "base/structs.h"

static iron_status check_values(const iron_attention *attention) {
  IRON_TRY(IronHeadsCheck(attention->tokens, attention->heads, attention->kv_heads, attention->head_dim));
  if (attention->first_position > UINT32_MAX - attention->tokens)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "first_position: %llu and %llu tokens are more than a kernel can count",
                           (unsigned long long)attention->first_position, (unsigned long long)attention->tokens);
  if (!isfinite(attention->scale))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "scale: is %g", (double)attention->scale);
  if (!isfinite(attention->softcap) || attention->softcap < 0)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "softcap: is %g, it must not be less than 0",
                           (double)attention->softcap);
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

/* The two passes of an attention in pieces, with scratch memory between them that lives as long as its submission. */
static iron_status encode_pieces(IronCommands *commands, int kernel, const IronOperand *operands,
                                 const attention_args *arguments) {
  bool wide = arguments->heads_at_once > 0;
  IronGrid pieces = {arguments->splits, wide ? IronAttentionBundles(arguments) : arguments->heads, arguments->tokens};
  uint64_t rows = (uint64_t)arguments->splits * arguments->heads * arguments->tokens;
  uint64_t bytes = rows * (arguments->head_dim + 2) * sizeof(float);
  const iron_buffer_options options = {.category = IRON_CATEGORY_SCRATCH, .label = "attention", .pooled = true};
  IronBuffer *scratch =
      wide ? [commands scratchOfLength:bytes] : IronBufferMake(commands->device, bytes, &options);
  if (!scratch) return IRON_ERROR_OUT_OF_MEMORY;
  IronOperand parts = {.name = "scratch", .buffer = scratch, .access = IRON_ACCESS_WRITE, .length = bytes, .whole = true};
  const IronOperand *q = &operands[ATTENTION_Q], *k = &operands[ATTENTION_K], *v = &operands[ATTENTION_V];
  const IronOperand split[] = {[ATTENTION_Q] = *q, [ATTENTION_K] = *k, [ATTENTION_V] = *v, [ATTENTION_OUT] = parts};
  parts.access = IRON_ACCESS_READ;
  const IronOperand merge[] = {[ATTENTION_MERGE_PARTS] = parts, [ATTENTION_MERGE_OUT] = operands[ATTENTION_OUT]};
  int second = IronKernelFind(IRON_OPERATION_ATTENTION_MERGE, 0, 0, arguments, merge);
  const IronPass passes[] = {
      {kernel, split, ATTENTION_ARGS, arguments, sizeof *arguments, pieces, 0},
      {second, merge, ATTENTION_MERGE_ARGS, arguments, sizeof *arguments,
       (IronGrid){arguments->heads, arguments->tokens, 1}, 0},
  };
  return IronOperationEncodePasses(commands, passes, sizeof passes / sizeof *passes);
}

iron_status iron_encode_attention(iron_commands *handle, const iron_attention *given) {
  IRON_ENTRY {
    iron_attention attention;
    IRON_READ_STRUCT(attention, given, "attention");
    IRON_RECORD(commands, handle);
    IRON_TRY(check_values(&attention));

    IronOperand q, k, v, out;
    IronShape shape = {.rows = attention.tokens, .width = attention.heads * attention.head_dim};
    IronShape k_shape = cache_shape(&attention, &attention.k, attention.k_head_stride);
    IronShape v_shape = cache_shape(&attention, &attention.v, attention.v_head_stride);
    IRON_TRY(IronOperandResolve(&q, "q", &attention.q, shape, IRON_TYPES_F32, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&k, "k", &attention.k, k_shape, IRON_TYPES_CACHE, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&v, "v", &attention.v, v_shape, IRON_TYPES_CACHE, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&out, "out", &attention.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, commands));
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
                                .scale = attention.scale == 0 ? 1 / sqrtf((float)attention.head_dim) : attention.scale,
                                .softcap = attention.softcap};
    const IronOperand operands[] = {[ATTENTION_Q] = q, [ATTENTION_K] = k, [ATTENTION_V] = v, [ATTENTION_OUT] = out};
    IronAttentionShareOut(&arguments, positions, operands);
    iron_status status;
    if (IronJoinedAttentionsRecord(commands, operands, &arguments, &status)) return status;
    int kernel = IronKernelFind(IRON_OPERATION_ATTENTION, k.dtype, 0, &arguments, operands);
    /* A single piece of attention_wide is the whole attention. */
    bool wide = arguments.heads_at_once > 0;
    if (arguments.splits > (wide ? 1 : 0)) return encode_pieces(commands, kernel, operands, &arguments);
    IronGrid heads = {attention.heads, attention.tokens, 1};
    if (wide) heads = (IronGrid){1, IronAttentionBundles(&arguments), attention.tokens};
    return IronOperationEncode(commands, kernel, operands, ATTENTION_ARGS, &arguments, sizeof arguments, heads);
  } IRON_LEAVE
}
