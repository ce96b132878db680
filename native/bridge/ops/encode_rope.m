#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "fusion.h"
#import "base/structs.h"

/* A thread turns these of many tokens, since the angle takes longer than a rotation. Few tokens leave threads idle. */
enum { HEADS_OF_AN_ANGLE = 8, MANY_TOKENS = 17 };

static iron_status check_rotation(const iron_rope *rope, uint64_t rotary_dim) {
  if (rotary_dim % 2)
    return IronErrorReport(IRON_ERROR_SHAPE, "rotary_dim: %llu is odd", (unsigned long long)rotary_dim);
  if (rotary_dim > rope->head_dim)
    return IronErrorReport(IRON_ERROR_SHAPE, "rotary_dim: %llu is more than head_dim, %llu",
                           (unsigned long long)rotary_dim, (unsigned long long)rope->head_dim);
  if (rope->pairing != IRON_ROPE_INTERLEAVED && rope->pairing != IRON_ROPE_HALF)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "pairing: %u is none", rope->pairing);
  if (!isfinite(rope->frequency_base) || rope->frequency_base <= 0)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "frequency_base: is %g, it must be more than 0",
                           (double)rope->frequency_base);
  if (!isfinite(rope->frequency_scale))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "frequency_scale: is %g", (double)rope->frequency_scale);
  return IRON_OK;
}

iron_status iron_encode_rope(iron_commands *handle, const iron_rope *given) {
  IRON_ENTRY {
    iron_rope rope;
    IRON_READ_STRUCT(rope, given, "rope");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("tokens", rope.tokens));
    IRON_TRY(IronDimensionCheck("heads", rope.heads));
    IRON_TRY(IronDimensionCheck("head_dim", rope.head_dim));
    uint64_t rotary_dim = rope.rotary_dim ? rope.rotary_dim : rope.head_dim;
    IRON_TRY(check_rotation(&rope, rotary_dim));

    IronOperand x, positions, factors;
    IronShape x_shape = {.rows = rope.tokens, .width = rope.heads * rope.head_dim};
    IronShape positions_shape = {.rows = 1, .width = rope.tokens}, factors_shape = {.rows = 1, .width = rotary_dim / 2};
    IRON_TRY(IronOperandResolve(&x, "x", &rope.x, x_shape, IRON_TYPES_F32, IRON_ACCESS_READ_WRITE, commands));
    IRON_TRY(IronOperandResolve(&positions, "positions", &rope.positions, positions_shape, IRON_TYPES_U32,
                                IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandsCheckOverlap(&x, &positions, false));
    factors = x;
    factors.access = 0; /* args.h: without factors, x is bound in their place and not read as such */
    if (rope.factors.buffer) {
      IRON_TRY(IronOperandResolve(&factors, "factors", &rope.factors, factors_shape, IRON_TYPES_F32, IRON_ACCESS_READ,
                                  commands));
      IRON_TRY(IronOperandsCheckOverlap(&x, &factors, false));
    }

    rope_args arguments = {.token_stride = x.row_stride,
                           .head_stride = rope.head_dim,
                           .tokens = (uint32_t)rope.tokens,
                           .heads = (uint32_t)rope.heads,
                           .rotary_dim = (uint32_t)rotary_dim,
                           .pairing = rope.pairing == IRON_ROPE_HALF ? ROPE_PAIRING_HALF : ROPE_PAIRING_INTERLEAVED,
                           .frequency_base = rope.frequency_base,
                           .frequency_scale = rope.frequency_scale == 0 ? 1 : rope.frequency_scale,
                           .has_factors = rope.factors.buffer != NULL};
    const IronOperand operands[] = {[ROPE_X] = x, [ROPE_POSITIONS] = positions, [ROPE_FACTORS] = factors};
    iron_status status;
    if (IronFusionRecordRope(commands, operands, &arguments, rope.head_dim, &status)) return status;
    uint64_t shared = rope.tokens >= MANY_TOKENS ? HEADS_OF_AN_ANGLE : 1;
    int kernel = IronKernelFind(IRON_OPERATION_ROPE, 0, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, ROPE_ARGS, &arguments, sizeof arguments,
                               (IronGrid){rotary_dim / 2, (rope.heads + shared - 1) / shared, rope.tokens});
  } IRON_LEAVE
}
