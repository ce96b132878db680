#import "matmul_panels.h"

static uint64_t rounded_up(uint64_t points, uint64_t tile) { return (points + tile - 1) / tile; }

static IronOperand scratch_of(IronBuffer *scratch, uint64_t offset, uint64_t length, iron_access access) {
  return (IronOperand){.name = "scratch", .buffer = scratch, .access = access, .offset = offset, .length = length};
}

bool IronMatmulPanelsRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *args,
                            iron_status *status) {
  const IronOperand *b = &operands[MATMUL_B], *c = &operands[MATMUL_C];
  if (commands->activations == IRON_ACTIVATIONS_FLOAT) return false;
  int kernel = IronKernelFind(IRON_OPERATION_MATMUL_PANELS, b->dtype, c->dtype, args, operands);
  if (kernel < 0) return false;
  uint64_t slices = rounded_up(args->k, MATMUL_PANELS_SLICE), panels = rounded_up(args->n, MATMUL_PANELS_ROWS);
  uint64_t ranges = commands->device->cores / slices;
  if (ranges > panels) ranges = panels;
  if (ranges == 0) ranges = 1;

  /* Behind the bytes of a are the products of slices. */
  uint64_t a_bytes = MATMUL_PANELS_A_BYTES((uint64_t)args->k), plane = (uint64_t)args->m * args->n;
  uint64_t parts_bytes = slices > 1 ? slices * plane * sizeof(float) : 0;
  IronBuffer *scratch = [commands scratchOfLength:a_bytes + parts_bytes];
  if (!scratch) return false;
  const matmul_panels_bytes_args rounding = {.a_row_stride = args->a_row_stride, .m = args->m, .k = args->k};
  const IronOperand rounded[] = {[MATMUL_PANELS_BYTES_A] = operands[MATMUL_A],
                                 [MATMUL_PANELS_BYTES_OUT] = scratch_of(scratch, 0, a_bytes, IRON_ACCESS_WRITE)};

  matmul_args product = *args;
  product.written = [commands isWritten:b->buffer];
  IronOperand factors[] = {[MATMUL_A] = scratch_of(scratch, 0, a_bytes, IRON_ACCESS_READ),
                           [MATMUL_B] = *b,
                           [MATMUL_BIAS] = operands[MATMUL_BIAS],
                           [MATMUL_C] = *c};
  if (slices > 1) {
    product.c_row_stride = args->n;
    product.c_batch_stride = plane;
    product.has_bias = 0;
    factors[MATMUL_C] = scratch_of(scratch, a_bytes, parts_bytes, IRON_ACCESS_WRITE);
    factors[MATMUL_BIAS] = scratch_of(scratch, a_bytes, parts_bytes, 0);
  }
  const accumulate_args last = {.c_row_stride = args->c_row_stride,
                                .m = args->m,
                                .n = args->n,
                                .batch = (uint32_t)slices,
                                .has_bias = args->has_bias};
  const IronOperand sum[] = {[ACCUMULATE_PRODUCT] = scratch_of(scratch, a_bytes, parts_bytes, IRON_ACCESS_READ),
                             [ACCUMULATE_BIAS] = operands[MATMUL_BIAS],
                             [ACCUMULATE_C] = *c};
  const IronPass passes[] = {
      {IronKernelFind(IRON_OPERATION_PANELS_BYTES, 0, 0, &rounding, rounded), rounded, MATMUL_PANELS_BYTES_ARGS,
       &rounding, sizeof rounding, (IronGrid){args->k, MATMUL_PANELS_ROWS, 1}, 0},
      {kernel, factors, MATMUL_ARGS, &product, sizeof product, (IronGrid){ranges, slices, 1}, MATMUL_PANELS_MEMORY},
      {IronKernelFind(IRON_OPERATION_SLICES_SUM, 0, 0, &last, sum), sum, ACCUMULATE_ARGS, &last, sizeof last,
       (IronGrid){args->n, args->m, 1}, 0},
  };
  *status = IronOperationEncodePasses(commands, passes, slices > 1 ? 3 : 2);
  return true;
}
