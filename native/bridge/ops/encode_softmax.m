#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_softmax(iron_commands *handle, const iron_softmax *given) {
  IRON_ENTRY {
    iron_softmax softmax;
    IRON_READ_STRUCT(softmax, given, "softmax");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", softmax.rows));
    IRON_TRY(IronDimensionCheck("width", softmax.width));
    if (!isfinite(softmax.scale))
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "scale: is %g", (double)softmax.scale);

    IronOperand x, out;
    IronShape shape = {.rows = softmax.rows, .width = softmax.width};
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&x, "x", &softmax.x, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &softmax.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, true));

    softmax_args arguments = {.x_row_stride = x.row_stride,
                              .out_row_stride = out.row_stride,
                              .rows = (uint32_t)softmax.rows,
                              .width = (uint32_t)softmax.width,
                              .scale = softmax.scale == 0 ? 1 : softmax.scale};
    const IronOperand operands[] = {[SOFTMAX_X] = x, [SOFTMAX_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_SOFTMAX, 0, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, SOFTMAX_ARGS, &arguments, sizeof arguments,
                               (IronGrid){softmax.rows, 1, 1});
  } IRON_LEAVE
}
