#import "args.h"
#import "base/entry.h"
#import "operation.h"
#import "base/structs.h"

iron_status iron_encode_embedding(iron_commands *handle, const iron_embedding *given) {
  IRON_ENTRY {
    iron_embedding embedding;
    IRON_READ_STRUCT(embedding, given, "embedding");
    IRON_RECORD(commands, handle);
    IRON_TRY(IronDimensionCheck("rows", embedding.rows));
    IRON_TRY(IronDimensionCheck("width", embedding.width));
    IRON_TRY(IronDimensionCheck("vocab", embedding.vocab));
    if (!isfinite(embedding.scale)) {
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "scale: is %g", (double)embedding.scale);
    }

    IronOperand table, ids, out;
    IronShape table_shape = {.rows = embedding.vocab, .width = embedding.width, .weights = true};
    IronShape ids_shape = {.rows = 1, .width = embedding.rows};
    IronShape out_shape = {.rows = embedding.rows, .width = embedding.width};
    IRON_TRY(IronOperandResolve(&table, "table", &embedding.table, table_shape, IRON_TYPES_WEIGHTS, IRON_ACCESS_READ,
                                commands));
    IRON_TRY(IronOperandResolve(&ids, "ids", &embedding.ids, ids_shape, IRON_TYPES_U32, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&out, "out", &embedding.out, out_shape, IRON_TYPES_F32, IRON_ACCESS_WRITE, commands));
    IRON_TRY(IronOperandsCheckOverlap(&out, &table, false));
    IRON_TRY(IronOperandsCheckOverlap(&out, &ids, false));

    embedding_args arguments = {.table_row_stride = table.row_stride,
                                .out_row_stride = out.row_stride,
                                .rows = (uint32_t)embedding.rows,
                                .width = (uint32_t)embedding.width,
                                .vocab = (uint32_t)embedding.vocab,
                                .scale = embedding.scale == 0 ? 1 : embedding.scale};
    const IronOperand operands[] = {[EMBEDDING_TABLE] = table, [EMBEDDING_IDS] = ids, [EMBEDDING_OUT] = out};
    int kernel = IronKernelFind(IRON_OPERATION_EMBEDDING, table.dtype, 0, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, EMBEDDING_ARGS, &arguments, sizeof arguments,
                               (IronGrid){embedding.width, embedding.rows, 1});
  } IRON_LEAVE
}
