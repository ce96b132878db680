#include "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_interleave(iron_commands *handle, const iron_interleave *given) {
  IRON_ENTRY {
    iron_interleave interleave;
    IRON_READ_STRUCT(interleave, given, "interleave");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", interleave.rows));
    IRON_TRY(IronDimensionCheck("width", interleave.width));

    IronOperand x, out;
    IronShape shape = {.rows = interleave.rows, .width = interleave.width};
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&x, "x", &interleave.x, shape, IRON_TYPES_WEIGHTS, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &interleave.out, shape, IRON_TYPES_WEIGHTS, IRON_ACCESS_WRITE, device));
    if (out.dtype != x.dtype)
      return IronErrorReport(IRON_ERROR_SHAPE, "out: is %s, x is %s", IronTypeName(out.dtype), IronTypeName(x.dtype));
    if (!IronKernelExists(IRON_OPERATION_INTERLEAVE, x.dtype, 0))
      return IronErrorReport(IRON_ERROR_SHAPE, "x: %s cannot be interleaved", IronTypeName(x.dtype));
    if (interleave.rows % INTERLEAVE_ROWS)
      return IronErrorReport(IRON_ERROR_SHAPE, "rows: %llu are not strips of %d", (unsigned long long)interleave.rows,
                             INTERLEAVE_ROWS);
    if (out.row_stride != interleave.width)
      return IronErrorReport(IRON_ERROR_SHAPE, "out: strips are packed, row_stride is %llu", (unsigned long long)out.row_stride);
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, false));

    interleave_args arguments = {
        .x_row_stride = x.row_stride, .rows = (uint32_t)interleave.rows, .width = (uint32_t)interleave.width};
    const IronOperand operands[] = {[INTERLEAVE_X] = x, [INTERLEAVE_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_INTERLEAVE, x.dtype, 0, &arguments, operands);
    uint64_t blocks = interleave.width / IronTypeElements(x.dtype);
    return IronOperationEncode(commands, kernel, operands, INTERLEAVE_ARGS, &arguments, sizeof arguments,
                               (IronGrid){blocks, interleave.rows, 1});
  } IRON_LEAVE
}
