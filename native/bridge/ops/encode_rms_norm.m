#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_rms_norm(iron_commands *handle, const iron_rms_norm *given) {
  IRON_ENTRY {
    iron_rms_norm norm;
    IRON_READ_STRUCT(norm, given, "norm");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", norm.rows));
    IRON_TRY(IronDimensionCheck("width", norm.width));
    if (!isfinite(norm.eps) || norm.eps < 0)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "eps: is %g, it must not be less than 0", (double)norm.eps);

    IronOperand x, weight, out;
    IronShape shape = {.rows = norm.rows, .width = norm.width}, weight_shape = {.rows = 1, .width = norm.width};
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&x, "x", &norm.x, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(
        IronOperandResolve(&weight, "weight", &norm.weight, weight_shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &norm.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, true));
    IRON_TRY(IronOperandsCheckOverlap(&out, &weight, false));

    rms_norm_args arguments = {.x_row_stride = x.row_stride,
                               .out_row_stride = out.row_stride,
                               .rows = (uint32_t)norm.rows,
                               .width = (uint32_t)norm.width,
                               .eps = norm.eps};
    const IronOperand operands[] = {[RMS_NORM_X] = x, [RMS_NORM_WEIGHT] = weight, [RMS_NORM_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_RMS_NORM, 0, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, RMS_NORM_ARGS, &arguments, sizeof arguments,
                               (IronGrid){norm.rows, 1, 1});
  } IRON_LEAVE
}
