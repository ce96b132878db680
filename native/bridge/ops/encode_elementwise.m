#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

static iron_status encode(iron_commands *handle, const iron_elementwise *given, IronOperation operation) {
  iron_elementwise elementwise;
  IRON_READ_STRUCT(elementwise, given, "operands");
  IRON_RECORD(commands, handle);
  IRON_TRY(IronDimensionCheck("count", elementwise.count));

  IronOperand a, b, out;
  IronShape shape = {.rows = 1, .width = elementwise.count};
  IronDevice *device = commands->device;
  IRON_TRY(IronOperandResolve(&a, "a", &elementwise.a, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
  IRON_TRY(IronOperandResolve(&b, "b", &elementwise.b, shape, IRON_TYPES_F32, IRON_ACCESS_READ, device));
  IRON_TRY(IronOperandResolve(&out, "out", &elementwise.out, shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, device));
  IRON_TRY(IronOperandsCheckOverlap(&out, &a, true));
  IRON_TRY(IronOperandsCheckOverlap(&out, &b, true));

  elementwise_args arguments = {.count = elementwise.count};
  const IronOperand operands[] = {[ELEMENTWISE_A] = a, [ELEMENTWISE_B] = b, [ELEMENTWISE_OUT] = out};
  int kernel = IronKernelFind(operation, 0, 0, &arguments, operands);
  return IronOperationEncode(commands, kernel, operands, ELEMENTWISE_ARGS, &arguments, sizeof arguments,
                             (IronGrid){elementwise.count, 1, 1});
}

iron_status iron_encode_add(iron_commands *commands, const iron_elementwise *operands) {
  IRON_ENTRY {
    return encode(commands, operands, IRON_OPERATION_ADD);
  } IRON_LEAVE
}

iron_status iron_encode_silu_mul(iron_commands *commands, const iron_elementwise *operands) {
  IRON_ENTRY {
    return encode(commands, operands, IRON_OPERATION_SILU_MUL);
  } IRON_LEAVE
}
