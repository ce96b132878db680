#import "args.h"
#import "base/entry.h"
#import "base/structs.h"
#import "operation.h"

enum { PRODUCT_OPERANDS = MATMUL_ARGS, SUM_OPERANDS = SUM_ROWS_ARGS, RESULTS = 3 };

/* A product of the backward pass. */
typedef struct Product {
  matmul_args arguments;
  IronOperand operands[PRODUCT_OPERANDS];
} Product;

/* c = op(a) b, m x n, over k. */
static IronPass product_pass(Product *product, const IronOperand *a, bool transpose_a, const IronOperand *b,
                             const IronOperand *c, uint32_t k) {
  IronOperand no_bias = *c;
  no_bias.access = 0; /* args.h: without a bias, c is bound in its place and not read */
  product->operands[MATMUL_A] = *a;
  product->operands[MATMUL_B] = *b;
  product->operands[MATMUL_BIAS] = no_bias;
  product->operands[MATMUL_C] = *c;
  product->arguments = (matmul_args){.a_row_stride = a->row_stride,
                                     .b_row_stride = b->row_stride,
                                     .c_row_stride = c->row_stride,
                                     .m = (uint32_t)c->rows,
                                     .n = (uint32_t)c->width,
                                     .k = k,
                                     .batch = 1,
                                     .transpose_a = transpose_a};
  int kernel =
      IronKernelFind(IRON_OPERATION_MATMUL, IRON_F32, IRON_F32, &product->arguments, product->operands);
  return (IronPass){kernel, product->operands, PRODUCT_OPERANDS, &product->arguments, sizeof product->arguments,
                    {c->width, c->rows, 1}, 0};
}

/* An operand of the caller's, and what it is checked against. */
typedef struct Given {
  const char *name;
  const iron_tensor *tensor;
  IronShape shape;
  bool wanted;
} Given;

static iron_status resolve(IronOperand *operands, const Given *given, size_t count, iron_access access,
                           IronCommands *commands) {
  for (size_t index = 0; index < count; index++)
    if (given[index].wanted)
      IRON_TRY(IronOperandResolve(&operands[index], given[index].name, given[index].tensor, given[index].shape,
                                  IRON_TYPES_F32, access, commands));
  return IRON_OK;
}

iron_status iron_encode_linear_backward(iron_commands *handle, const iron_linear_backward *caller) {
  IRON_ENTRY {
    iron_linear_backward linear;
    IRON_READ_STRUCT(linear, caller, "linear");
    IRON_RECORD(commands, handle);
    uint64_t rows = linear.rows, inputs = linear.inputs, outputs = linear.outputs;
    IRON_TRY(IronDimensionCheck("rows", rows));
    IRON_TRY(IronDimensionCheck("inputs", inputs));
    IRON_TRY(IronDimensionCheck("outputs", outputs));
    bool of_x = linear.x_gradient.buffer, of_weight = linear.weight_gradient.buffer,
         of_bias = linear.bias_gradient.buffer;
    if (!of_x && !of_weight && !of_bias)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                             "linear: no x_gradient, weight_gradient or bias_gradient is asked for");

    enum { X, WEIGHT, GRADIENT, INPUTS };
    IronShape x_shape = {.rows = rows, .width = inputs}, weight_shape = {.rows = outputs, .width = inputs};
    const Given given_inputs[INPUTS] = {
        [X] = {"x", &linear.x, x_shape, of_weight},
        [WEIGHT] = {"weight", &linear.weight, weight_shape, of_x},
        [GRADIENT] = {"gradient", &linear.gradient, {.rows = rows, .width = outputs}, true},
    };
    enum { X_GRADIENT, WEIGHT_GRADIENT, BIAS_GRADIENT };
    const Given given_results[RESULTS] = {
        [X_GRADIENT] = {"x_gradient", &linear.x_gradient, x_shape, of_x},
        [WEIGHT_GRADIENT] = {"weight_gradient", &linear.weight_gradient, weight_shape, of_weight},
        [BIAS_GRADIENT] = {"bias_gradient", &linear.bias_gradient, {.rows = 1, .width = outputs}, of_bias},
    };
    IronOperand in[INPUTS], out[RESULTS];
    IRON_TRY(resolve(in, given_inputs, INPUTS, IRON_ACCESS_READ, commands));
    IRON_TRY(resolve(out, given_results, RESULTS, IRON_ACCESS_WRITE, commands));
    for (size_t result = 0; result < RESULTS; result++) {
      if (!given_results[result].wanted) continue;
      for (size_t input = 0; input < INPUTS; input++)
        if (given_inputs[input].wanted) IRON_TRY(IronOperandsCheckOverlap(&out[result], &in[input], false));
      for (size_t other = 0; other < result; other++)
        if (given_results[other].wanted) IRON_TRY(IronOperandsCheckOverlap(&out[result], &out[other], false));
    }

    Product of_the_x, of_the_weight;
    IronPass passes[RESULTS];
    size_t count = 0;
    if (of_x)
      passes[count++] = product_pass(&of_the_x, &in[GRADIENT], false, &in[WEIGHT], &out[X_GRADIENT], (uint32_t)outputs);
    if (of_weight)
      passes[count++] =
          product_pass(&of_the_weight, &in[GRADIENT], true, &in[X], &out[WEIGHT_GRADIENT], (uint32_t)rows);
    sum_rows_args sum = {
        .x_row_stride = in[GRADIENT].row_stride, .rows = (uint32_t)rows, .width = (uint32_t)outputs};
    const IronOperand summed[SUM_OPERANDS] = {
        [SUM_ROWS_X] = in[GRADIENT], [SUM_ROWS_OUT] = of_bias ? out[BIAS_GRADIENT] : in[GRADIENT]};
    if (of_bias)
      passes[count++] = (IronPass){IronKernelFind(IRON_OPERATION_SUM_ROWS, 0, 0, &sum, summed), summed, SUM_OPERANDS,
                                   &sum, sizeof sum, {outputs, 1, 1}, 0};
    return IronOperationEncodePasses(commands, passes, count);
  } IRON_LEAVE
}
