#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_argmax(iron_commands *handle, const iron_argmax *given) {
  IRON_ENTRY {
    iron_argmax argmax;
    IRON_READ_STRUCT(argmax, given, "argmax");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", argmax.rows));
    IRON_TRY(IronDimensionCheck("width", argmax.width));

    IronOperand x, out;
    IronShape x_shape = {.rows = argmax.rows, .width = argmax.width}, out_shape = {.rows = 1, .width = argmax.rows};
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&x, "x", &argmax.x, x_shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &argmax.out, out_shape, IRON_TYPES_U32, IRON_ACCESS_WRITE, device));
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, false));

    argmax_args arguments = {
        .x_row_stride = x.row_stride, .rows = (uint32_t)argmax.rows, .width = (uint32_t)argmax.width};
    const IronOperand operands[] = {[ARGMAX_X] = x, [ARGMAX_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_ARGMAX, 0, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, ARGMAX_ARGS, &arguments, sizeof arguments,
                               (IronGrid){argmax.rows, 1, 1});
  } IRON_LEAVE
}
