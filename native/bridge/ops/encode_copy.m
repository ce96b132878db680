#import "args.h"
#import "base/entry.h"
#import "fusion.h"
#import "joined_copies.h"
#import "base/structs.h"

iron_status iron_encode_copy(iron_commands *handle, const iron_copy *given) {
  IRON_ENTRY {
    iron_copy copy;
    IRON_READ_STRUCT(copy, given, "copy");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", copy.rows));
    IRON_TRY(IronDimensionCheck("width", copy.width));

    IronOperand src, dst;
    IronShape shape = {.rows = copy.rows, .width = copy.width};
    IronTypes types = IRON_TYPES_FLOAT | IRON_TYPES_U32 | IRON_TYPES(IRON_Q8_0);
    IRON_TRY(IronOperandResolve(&src, "src", &copy.src, shape, types, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&dst, "dst", &copy.dst, shape, types, IRON_ACCESS_WRITE, commands));
    IRON_TRY(IronOperandsCheckOverlap(&dst, &src, false));
    if (!IronKernelExists(IRON_OPERATION_COPY, src.dtype, dst.dtype))
      return IronErrorReport(IRON_ERROR_SHAPE, "dst: is %s, src is %s: there is no such conversion",
                             IronTypeName(dst.dtype), IronTypeName(src.dtype));

    copy_args arguments = {.src_row_stride = src.row_stride,
                           .dst_row_stride = dst.row_stride,
                           .rows = (uint32_t)copy.rows,
                           .width = (uint32_t)copy.width};
    const IronOperand operands[] = {[COPY_SRC] = src, [COPY_DST] = dst};
    iron_status status;
    if (IronFusionRecordCopy(commands, operands, &arguments, &status) ||
        IronJoinedCopiesRecord(commands, operands, &arguments, &status))
      return status;
    int kernel = IronKernelFind(IRON_OPERATION_COPY, src.dtype, dst.dtype, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, COPY_ARGS, &arguments, sizeof arguments,
                               (IronGrid){copy.width, copy.rows, 1});
  } IRON_LEAVE
}
