#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

static iron_status encode(iron_commands *handle, const iron_activation *given, IronOperation operation) {
  iron_activation activation;
  IRON_READ_STRUCT(activation, given, "operands");
  IRON_RECORD(commands, handle);
  IRON_TRY(IronDimensionCheck("count", activation.count));

  IronOperand x, out;
  IronShape shape = {.rows = 1, .width = activation.count};
  IronDevice *device = commands->device;
  IRON_TRY(IronOperandResolve(&x, "x", &activation.x, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
  IRON_TRY(IronOperandResolve(&out, "out", &activation.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
  IRON_TRY(IronOperandsCheckOverlap(&out, &x, true));

  activation_args arguments = {.count = activation.count};
  const IronOperand operands[] = {[ACTIVATION_X] = x, [ACTIVATION_OUT] = out};
  int kernel = IronKernelFind(operation, 0, 0, &arguments, operands);
  return IronOperationEncode(commands, kernel, operands, ACTIVATION_ARGS, &arguments, sizeof arguments,
                             (IronGrid){activation.count, 1, 1});
}

iron_status iron_encode_relu(iron_commands *commands, const iron_activation *operands) {
  IRON_ENTRY {
    return encode(commands, operands, IRON_OPERATION_RELU);
  } IRON_LEAVE
}

iron_status iron_encode_sigmoid(iron_commands *commands, const iron_activation *operands) {
  IRON_ENTRY {
    return encode(commands, operands, IRON_OPERATION_SIGMOID);
  } IRON_LEAVE
}

iron_status iron_encode_tanh(iron_commands *commands, const iron_activation *operands) {
  IRON_ENTRY {
    return encode(commands, operands, IRON_OPERATION_TANH);
  } IRON_LEAVE
}
