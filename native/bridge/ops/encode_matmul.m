#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "fusion.h"
#import "matmul_halves.h"
#import "matmul_panels.h"
#import "matmul_slices.h"
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

/* The product goes to scratch memory, and from there with c into c. */
static iron_status encode_accumulation(IronCommands *commands, const iron_matmul *matmul, const IronOperand *given,
                                       const matmul_args *arguments) {
  const IronOperand *c = &given[MATMUL_C];
  uint64_t elements, bytes;
  if (__builtin_mul_overflow(c->rows * c->width, c->planes, &elements) || elements > UINT32_MAX)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "c: has too many elements for alpha and beta");
  IRON_TRY(IronTypeBytes(c->dtype, elements, "c", &bytes));
  IronBuffer *scratch = [commands scratchOfLength:bytes];
  if (!scratch) return IRON_ERROR_OUT_OF_MEMORY;
  IronOperand product = *c;
  product.name = "scratch";
  product.buffer = scratch;
  product.offset = 0;
  product.length = bytes;
  product.row_stride = c->width;
  product.plane_stride = c->rows * c->width;
  product.whole = false;
  product.access = IRON_ACCESS_WRITE;
  matmul_args packed = *arguments;
  packed.c_row_stride = product.row_stride;
  packed.c_batch_stride = product.plane_stride;
  packed.has_bias = 0;
  IronOperand no_bias = product;
  no_bias.access = 0;
  const IronOperand first[] = {
      [MATMUL_A] = given[MATMUL_A], [MATMUL_B] = given[MATMUL_B], [MATMUL_BIAS] = no_bias, [MATMUL_C] = product};

  const accumulate_args last = {.c_row_stride = arguments->c_row_stride,
                                .c_batch_stride = arguments->c_batch_stride,
                                .m = arguments->m,
                                .n = arguments->n,
                                .batch = arguments->batch,
                                .has_bias = arguments->has_bias,
                                .alpha = matmul->alpha == 0 ? 1 : matmul->alpha,
                                .beta = matmul->beta};
  product.access = IRON_ACCESS_READ;
  IronOperand sum = *c;
  sum.access = matmul->beta == 0 ? IRON_ACCESS_WRITE : IRON_ACCESS_READ_WRITE;
  const IronOperand second[] = {
      [ACCUMULATE_PRODUCT] = product, [ACCUMULATE_BIAS] = given[MATMUL_BIAS], [ACCUMULATE_C] = sum};
  IronGrid grid = {arguments->n, arguments->m, arguments->batch};
  const IronPass passes[] = {
      {IronKernelFind(IRON_OPERATION_MATMUL, given[MATMUL_B].dtype, c->dtype, &packed, first), first, MATMUL_ARGS,
       &packed, sizeof packed, grid, 0},
      {IronKernelFind(IRON_OPERATION_ACCUMULATE, c->dtype, 0, &last, second), second, ACCUMULATE_ARGS, &last,
       sizeof last, grid, 0},
  };
  return IronOperationEncodePasses(commands, passes, sizeof passes / sizeof *passes);
}

static iron_status check_factor(const char *name, float value) {
  if (isfinite(value)) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is %g", name, (double)value);
}

/* The kernel that fusion.m records this product with, or -1. */
static int fused_kernel(const IronCommands *commands, const IronOperand *operands, const matmul_args *arguments) {
  iron_dtype b = operands[MATMUL_B].dtype, a = operands[MATMUL_A].dtype;
  if (commands->activations != IRON_ACTIVATIONS_FLOAT) {
    int kernel = IronKernelFind(IRON_OPERATION_MATMUL_FUSED_BYTES, b, a, arguments, operands);
    if (kernel >= 0 && (commands->activations == IRON_ACTIVATIONS_BYTES || IronProductIsLong(kernel))) return kernel;
  }
  return IronKernelFind(IRON_OPERATION_MATMUL_FUSED, b, a, arguments, operands);
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
    IRON_TRY(check_factor("alpha", matmul.alpha));
    IRON_TRY(check_factor("beta", matmul.beta));

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
    IRON_TRY(IronOperandResolve(&a, "a", &matmul.a, a_shape, IRON_TYPES_F32_F16, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&b, "b", &matmul.b, b_shape, IRON_TYPES_WEIGHTS, IRON_ACCESS_READ, commands));
    IRON_TRY(IronOperandResolve(&c, "c", &matmul.c, c_shape, IRON_TYPES_F32_F16, IRON_ACCESS_WRITE, commands));
    bias = c;
    bias.access = 0; /* args.h: without a bias, c is bound in its place and not read */
    if (matmul.bias.buffer) {
      IronShape bias_shape = {.rows = 1, .width = n};
      IRON_TRY(
          IronOperandResolve(&bias, "bias", &matmul.bias, bias_shape, IRON_TYPES_F32_F16, IRON_ACCESS_READ, commands));
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
    if (matmul.beta != 0 || (matmul.alpha != 0 && matmul.alpha != 1))
      return encode_accumulation(commands, &matmul, operands, &arguments);
    int fused = fused_kernel(commands, operands, &arguments);
    if (fused >= 0) return IronFusionRecordProduct(commands, fused, operands, &arguments);
    iron_status status;
    if (IronMatmulPanelsRecord(commands, operands, &arguments, &status)) return status;
    if (IronMatmulSlicesRecord(commands, operands, &arguments, &status)) return status;
    if (IronMatmulHalvesRecord(commands, operands, &arguments, &status)) return status;
    int kernel = IronKernelFind(IRON_OPERATION_MATMUL, b.dtype, a.dtype, &arguments, operands);
    return IronOperationEncode(commands, kernel, operands, MATMUL_ARGS, &arguments, sizeof arguments,
                               (IronGrid){n, m, batch});
  } IRON_LEAVE
}
