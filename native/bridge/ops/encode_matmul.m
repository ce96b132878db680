#import "args.h"
#import "base/entry.h"
#import "fusion.h"
#import "base/structs.h"

static iron_status check_types(const iron_matmul *matmul, const IronOperand *b) {
  if (matmul->c.dtype != matmul->a.dtype)
    return IronErrorReport(IRON_ERROR_SHAPE, "c: is %s, a is %s", IronTypeName(matmul->c.dtype),
                           IronTypeName(matmul->a.dtype));
  if (matmul->bias.buffer && matmul->bias.dtype != matmul->a.dtype)
    return IronErrorReport(IRON_ERROR_SHAPE, "bias: is %s, a is %s", IronTypeName(matmul->bias.dtype),
                           IronTypeName(matmul->a.dtype));
  if ((IRON_TYPES(matmul->b.dtype) & IRON_TYPES_BLOCKS) && !matmul->transpose_b)
    return IronErrorReport(IRON_ERROR_SHAPE, "b: %s weights are stored n × k, set transpose_b",
                           IronTypeName(matmul->b.dtype));
  if (b->buffer->weights && !matmul->transpose_b)
    return IronErrorReport(IRON_ERROR_SHAPE, "b: weights are stored n × k, set transpose_b");
  return IRON_OK;
}

iron_status iron_encode_matmul(iron_commands *handle, const iron_matmul *given) {
  IRON_ENTRY {
    iron_matmul matmul;
    IRON_READ_STRUCT(matmul, given, "matmul");
    IRON_RECORD(commands, handle);
    uint64_t m = matmul.m, n = matmul.n, k = matmul.k;
    uint32_t batch = matmul.batch ? matmul.batch : 1;
    IRON_TRY(IronDimensionCheck("m", m));
    IRON_TRY(IronDimensionCheck("n", n));
    IRON_TRY(IronDimensionCheck("k", k));
    IRON_TRY(IronTruthCheck("transpose_a", matmul.transpose_a));
    IRON_TRY(IronTruthCheck("transpose_b", matmul.transpose_b));

    IronOperand a, b, bias, c;
    IronShape a_shape = {.rows = matmul.transpose_a ? k : m, .width = matmul.transpose_a ? m : k, .planes = batch};
    IronShape b_shape = {.rows = matmul.transpose_b ? n : k, .width = matmul.transpose_b ? k : n, .planes = batch};
    b_shape.weights = true;
    IronShape c_shape = {.rows = m, .width = n, .planes = batch};
    if (batch > 1) {
      a_shape.plane_stride = matmul.a.batch_stride;
      b_shape.plane_stride = matmul.b.batch_stride;
      c_shape.plane_stride = matmul.c.batch_stride;
    }
    IronDevice *device = commands->device;
    IRON_TRY(IronOperandResolve(&a, "a", &matmul.a, a_shape, IRON_TYPES_F32_F16, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&b, "b", &matmul.b, b_shape, IRON_TYPES_WEIGHTS, IRON_ACCESS_READ, device));
    IRON_TRY(IronOperandResolve(&c, "c", &matmul.c, c_shape, IRON_TYPES_F32_F16, IRON_ACCESS_WRITE, device));
    bias = c;
    bias.access = 0; /* args.h: without a bias, c is bound in its place and not read */
    if (matmul.bias.buffer) {
      IronShape bias_shape = {.rows = 1, .width = n};
      IRON_TRY(
          IronOperandResolve(&bias, "bias", &matmul.bias, bias_shape, IRON_TYPES_F32_F16, IRON_ACCESS_READ, device));
      IRON_TRY(IronOperandsCheckOverlap(&c, &bias, false));
    }
    IRON_TRY(check_types(&matmul, &b));
    IRON_TRY(IronOperandsCheckOverlap(&c, &a, false));
    IRON_TRY(IronOperandsCheckOverlap(&c, &b, false));

    matmul_args arguments = {.a_row_stride = a.row_stride,
                             .a_batch_stride = a.plane_stride,
                             .b_row_stride = b.row_stride,
                             .b_batch_stride = b.plane_stride,
                             .c_row_stride = c.row_stride,
                             .c_batch_stride = c.plane_stride,
                             .m = (uint32_t)m,
                             .n = (uint32_t)n,
                             .k = (uint32_t)k,
                             .batch = batch,
                             .transpose_a = matmul.transpose_a,
                             .transpose_b = matmul.transpose_b,
                             .has_bias = matmul.bias.buffer != NULL};
    const IronOperand operands[] = {[MATMUL_A] = a, [MATMUL_B] = b, [MATMUL_BIAS] = bias, [MATMUL_C] = c};
    int of_bytes = IronKernelFind(IRON_OPERATION_MATMUL_BYTES, b.dtype, a.dtype, &arguments, operands);
    if (of_bytes >= 0) return IronFusionRecordProduct(commands, of_bytes, operands, &arguments);
    int kernel = IronKernelFind(IRON_OPERATION_MATMUL, b.dtype, a.dtype, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, MATMUL_ARGS, &arguments, sizeof arguments,
                               (IronGrid){n, m, batch});
  } IRON_LEAVE
}
