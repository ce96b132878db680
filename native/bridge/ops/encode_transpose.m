#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_transpose(iron_commands *handle, const iron_transpose *given) {
  IRON_ENTRY {
    iron_transpose transpose;
    IRON_READ_STRUCT(transpose, given, "transpose");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", transpose.rows));
    IRON_TRY(IronDimensionCheck("width", transpose.width));

    IronOperand x, out;
    IronShape x_shape = {.rows = transpose.rows, .width = transpose.width};
    IronShape out_shape = {.rows = transpose.width, .width = transpose.rows};
    IronDevice *device = commands->device;
    IronTypes types = IRON_TYPES_FLOAT | IRON_TYPES_U32;
    IRON_TRY(IronOperandResolve(&x, "x", &transpose.x, x_shape, types, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &transpose.out, out_shape, types, IRON_ACCESS_WRITE, device));
    if (out.dtype != x.dtype)
      return IronErrorReport(IRON_ERROR_SHAPE, "out: is %s, x is %s", IronTypeName(out.dtype), IronTypeName(x.dtype));
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, false));

    transpose_args arguments = {.x_row_stride = x.row_stride,
                                .out_row_stride = out.row_stride,
                                .rows = (uint32_t)transpose.rows,
                                .width = (uint32_t)transpose.width};
    const IronOperand operands[] = {[TRANSPOSE_X] = x, [TRANSPOSE_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_TRANSPOSE, x.dtype, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, TRANSPOSE_ARGS, &arguments, sizeof arguments,
                               (IronGrid){transpose.width, transpose.rows, 1});
  } IRON_LEAVE
}
