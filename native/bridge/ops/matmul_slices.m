#import "matmul_slices.h"

static uint64_t rounded_up(uint64_t points, uint64_t tile) { return (points + tile - 1) / tile; }

bool IronMatmulSlicesRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *args,
                            iron_status *status) {
  const IronOperand *b = &operands[MATMUL_B], *c = &operands[MATMUL_C];
  int kernel = IronKernelFind(IRON_OPERATION_MATMUL_SLICES, b->dtype, c->dtype, args, operands);
  if (kernel < 0) return false;
  uint64_t slices = rounded_up(args->k, IronSlicesWidth(kernel));
  uint64_t tiles = rounded_up(args->n, MATMUL_SLICES_ROWS), ranges = commands->device->cores / slices;
  if (ranges > tiles) ranges = tiles;
  if (ranges == 0) ranges = 1;
  IronGrid grid = {ranges, slices, rounded_up(args->m, MATMUL_SLICES_ROWS)};
  uint32_t memory = IronSlicesMemory(kernel);
  if (slices == 1) {
    const IronPass pass = {kernel, operands, MATMUL_ARGS, args, sizeof *args, grid, memory};
    *status = IronOperationEncodePasses(commands, &pass, 1);
    return true;
  }

  uint64_t plane = (uint64_t)args->m * args->n, bytes = slices * plane * sizeof(float);
  IronBuffer *scratch = [commands scratchOfLength:bytes];
  if (!scratch) return false;
  matmul_args sliced = *args;
  sliced.c_row_stride = args->n;
  sliced.c_batch_stride = plane;
  sliced.has_bias = 0;
  sliced.written = [commands isWritten:b->buffer];
  IronOperand parts = {.name = "scratch", .buffer = scratch, .access = IRON_ACCESS_WRITE, .length = bytes};
  IronOperand no_bias = parts;
  no_bias.access = 0;
  const IronOperand first[] = {
      [MATMUL_A] = operands[MATMUL_A], [MATMUL_B] = *b, [MATMUL_BIAS] = no_bias, [MATMUL_C] = parts};
  const accumulate_args last = {.c_row_stride = args->c_row_stride,
                                .m = args->m,
                                .n = args->n,
                                .batch = (uint32_t)slices,
                                .has_bias = args->has_bias};
  IronOperand read = parts;
  read.access = IRON_ACCESS_READ;
  const IronOperand second[] = {
      [ACCUMULATE_PRODUCT] = read, [ACCUMULATE_BIAS] = operands[MATMUL_BIAS], [ACCUMULATE_C] = *c};
  const IronPass passes[] = {
      {kernel, first, MATMUL_ARGS, &sliced, sizeof sliced, grid, memory},
      {IronKernelFind(IRON_OPERATION_SLICES_SUM, 0, 0, &last, second), second, ACCUMULATE_ARGS, &last, sizeof last,
       (IronGrid){args->n, args->m, 1}, 0},
  };
  *status = IronOperationEncodePasses(commands, passes, sizeof passes / sizeof *passes);
  return true;
}
