#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_add_bias(iron_commands *handle, const iron_add_bias *given) {
  IRON_ENTRY {
    iron_add_bias add_bias;
    IRON_READ_STRUCT(add_bias, given, "add_bias");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", add_bias.rows));
    IRON_TRY(IronDimensionCheck("width", add_bias.width));

    IronOperand x, bias, out;
    IronShape shape = {.rows = add_bias.rows, .width = add_bias.width},
              bias_shape = {.rows = 1, .width = add_bias.width};
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&x, "x", &add_bias.x, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&bias, "bias", &add_bias.bias, bias_shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&out, "out", &add_bias.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
    IRON_TRY(IronOperandsCheckOverlap(&out, &x, true));
    IRON_TRY(IronOperandsCheckOverlap(&out, &bias, false));

    add_bias_args arguments = {.x_row_stride = x.row_stride,
                               .out_row_stride = out.row_stride,
                               .rows = (uint32_t)add_bias.rows,
                               .width = (uint32_t)add_bias.width};
    const IronOperand operands[] = {[ADD_BIAS_X] = x, [ADD_BIAS_BIAS] = bias, [ADD_BIAS_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_ADD_BIAS, 0, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, ADD_BIAS_ARGS, &arguments, sizeof arguments,
                               (IronGrid){add_bias.width, add_bias.rows, 1});
  } IRON_LEAVE
}
