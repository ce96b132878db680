#import "matmul_panels.h"

#import "base/entry.h"

/* What was put off. Its buffers are the submission's since it was recorded. */
typedef struct Panels {
  IronOperand operands[MATMUL_PANELS_ARGS]; /* A: before it is rounded */
  IronBuffer *scratch;                      /* the bytes of A, and behind them the sums of slices, if there are any */
  matmul_panels_args arguments;
  matmul_panels_bytes_args rounding;
  IronKernelPass round, multiply, sum; /* without what they point to */
} Panels;

static uint64_t rounded_up(uint64_t points, uint64_t tile) { return (points + tile - 1) / tile; }
static uint64_t bytes_of_a(const Panels *panels) { return MATMUL_PANELS_A_BYTES((uint64_t)panels->arguments.k); }
static uint64_t bytes_of_slices(const Panels *panels) {
  const matmul_panels_args *args = &panels->arguments;
  return args->slices > 1 ? (uint64_t)args->slices * args->m * args->n * sizeof(float) : 0;
}

static IronOperand scratch_at(const Panels *panels, uint64_t offset, uint64_t length) {
  return (IronOperand){.name = "scratch",
                       .buffer = panels->scratch,
                       .access = IRON_ACCESS_WRITE,
                       .offset = offset,
                       .length = length,
                       .whole = true};
}

static void encode_pass(IronKernelPass *pass, const IronOperand *operands, const void *arguments,
                        id<MTLComputeCommandEncoder> encoder) {
  pass->pass.operands = operands;
  pass->pass.arguments = arguments;
  IronPassEncode(pass, encoder);
}

static void encode(void *what, id<MTLComputeCommandEncoder> encoder) {
  Panels *panels = what;
  const IronOperand *of = panels->operands;
  const IronOperand bytes = scratch_at(panels, 0, bytes_of_a(panels));
  const IronOperand rounded[] = {[MATMUL_PANELS_BYTES_A] = of[MATMUL_PANELS_A], [MATMUL_PANELS_BYTES_OUT] = bytes};
  encode_pass(&panels->round, rounded, &panels->rounding, encoder);

  IronOperand factors[MATMUL_PANELS_ARGS], sums[MATMUL_PANELS_ARGS];
  for (size_t index = 0; index < MATMUL_PANELS_ARGS; index++) factors[index] = sums[index] = of[index];
  factors[MATMUL_PANELS_A] = bytes;
  if (panels->arguments.slices == 1) {
    encode_pass(&panels->multiply, factors, &panels->arguments, encoder);
    return;
  }
  matmul_panels_args sliced = panels->arguments;
  sliced.has_bias = sliced.has_addend = 0;
  sums[MATMUL_PANELS_A] = factors[MATMUL_PANELS_C] = scratch_at(panels, bytes.length, bytes_of_slices(panels));
  encode_pass(&panels->multiply, factors, &sliced, encoder);
  encode_pass(&panels->sum, sums, &panels->arguments, encoder);
}

/* How the passes are shared out among threadgroups. */
static iron_status prepare(Panels *panels, int kernel, IronDevice *device) {
  const matmul_panels_args *args = &panels->arguments;
  uint64_t tiles = rounded_up((uint64_t)args->planes * args->n, MATMUL_PANELS_ROWS);
  uint64_t ranges = device->cores / args->slices;
  if (ranges > tiles) ranges = tiles;
  if (ranges == 0) ranges = 1;
  panels->round.pass = (IronPass){.kernel = IronKernelFind(IRON_OPERATION_PANELS_BYTES, 0, 0, args, panels->operands),
                                  .operand_count = MATMUL_PANELS_BYTES_ARGS,
                                  .arguments_size = sizeof panels->rounding,
                                  .grid = {args->k, MATMUL_PANELS_ROWS, 1}};
  panels->multiply.pass = (IronPass){.kernel = kernel,
                                     .operand_count = MATMUL_PANELS_ARGS,
                                     .arguments_size = sizeof *args,
                                     .grid = {ranges, args->slices, 1},
                                     .threadgroup_memory = MATMUL_PANELS_MEMORY};
  panels->sum.pass = (IronPass){.kernel = IronKernelFind(IRON_OPERATION_PANELS_SUM, 0, 0, args, panels->operands),
                                .operand_count = MATMUL_PANELS_ARGS,
                                .arguments_size = sizeof *args,
                                .grid = {args->n, args->m, 1}};
  IRON_TRY(IronPassPrepare(&panels->round, device));
  IRON_TRY(IronPassPrepare(&panels->multiply, device));
  return args->slices > 1 ? IronPassPrepare(&panels->sum, device) : IRON_OK;
}

/* Puts `panels` off; `operands` are those of the operation that is recorded. */
static iron_status put_off(IronCommands *commands, const Panels *panels, const IronOperand *operands, size_t count,
                           bool joins) {
  IronLocation location = IronLocationTake();
  Panels *kept = [commands roomForPutOff:sizeof *kept];
  if (!kept) return IRON_ERROR_OUT_OF_MEMORY;
  IronOperand used[MATMUL_PANELS_ARGS + 1];
  for (size_t index = 0; index < count; index++) used[index] = operands[index];
  used[count] = scratch_at(panels, 0, bytes_of_a(panels) + bytes_of_slices(panels));
  uint64_t bytes;
  IRON_TRY(IronOperationPrepareToPutOff(commands, used, joins ? count : count + 1, joins, &bytes));
  *kept = *panels;
  IronOperationPutOff(commands, encode, bytes, location, operands, count);
  return IRON_OK;
}

/* A product without anything behind it, whose rows are packed. */
static bool is_plain(const Panels *panels) {
  const matmul_panels_args *args = &panels->arguments;
  return !args->has_addend && !args->gated && args->c_row_stride == args->n;
}

/* Whether a product is the second plane of the one before. */
static bool is_second_plane(const Panels *before, int kernel, const IronOperand *operands, const matmul_args *args) {
  const matmul_panels_args *first = &before->arguments;
  const IronOperand *of = before->operands, *a = &operands[MATMUL_A], *b = &operands[MATMUL_B],
                    *c = &operands[MATMUL_C];
  bool same = is_plain(before) && first->planes == 1 && first->slices == 1 && kernel == before->multiply.pass.kernel &&
              args->m == first->m && args->n == first->n && args->k == first->k && args->b_row_stride == args->k &&
              first->b_row_stride == args->k && args->c_row_stride == args->n && !args->has_bias && !first->has_bias &&
              args->n % MATMUL_PANELS_ROWS == 0;
  if (!same || !IronSamePlace(a, &of[MATMUL_PANELS_A]) || args->a_row_stride != before->rounding.a_row_stride)
    return false;
  const IronOperand *first_b = &of[MATMUL_PANELS_B], *first_c = &of[MATMUL_PANELS_C];
  bool follow = b->buffer == first_b->buffer && b->offset == first_b->offset + first_b->length &&
                c->buffer == first_c->buffer && c->offset == first_c->offset + first_c->length;
  return follow && !IronOverlap(c, first_b) && !IronOverlap(first_c, b);
}

bool IronMatmulPanelsRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *args,
                            iron_status *status) {
  const IronOperand *b = &operands[MATMUL_B], *c = &operands[MATMUL_C];
  if (commands->activations == IRON_ACTIVATIONS_FLOAT) return false;
  int kernel = IronKernelFind(IRON_OPERATION_MATMUL_PANELS, b->dtype, c->dtype, args, operands);
  if (kernel < 0) return false;
  const Panels *before = [commands putOffBy:encode];
  bool joins = before && is_second_plane(before, kernel, operands, args);
  Panels panels = joins ? *before
                        : (Panels){.arguments = {.b_row_stride = args->b_row_stride,
                                                 .c_row_stride = args->c_row_stride,
                                                 .m = args->m,
                                                 .n = args->n,
                                                 .k = args->k,
                                                 .planes = 1,
                                                 .slices = (uint32_t)rounded_up(args->k, MATMUL_PANELS_SLICE),
                                                 .has_bias = args->has_bias},
                                   .rounding = {.a_row_stride = args->a_row_stride,
                                                .m = args->m,
                                                .k = args->k}};
  panels.arguments.written |= [commands isWritten:b->buffer];
  if (joins) {
    panels.arguments.planes = 2;
  } else {
    for (size_t index = 0; index < MATMUL_PANELS_ARGS; index++) panels.operands[index] = *c;
    panels.operands[MATMUL_PANELS_A] = operands[MATMUL_A];
    panels.operands[MATMUL_PANELS_B] = *b;
    panels.operands[MATMUL_PANELS_BIAS] = operands[MATMUL_BIAS];
    panels.scratch = [commands scratchOfLength:bytes_of_a(&panels) + bytes_of_slices(&panels)];
    if (!panels.scratch) return false;
  }
  *status = prepare(&panels, kernel, commands->device);
  if (*status == IRON_OK) *status = put_off(commands, &panels, operands, MATMUL_ARGS, joins);
  return true;
}

/* y + addend. */
static bool record_sum(IronCommands *commands, const Panels *before, const IronOperand *operands, iron_status *status) {
  const IronOperand *of = before->operands, *c = &of[MATMUL_PANELS_C], *a = &operands[ELEMENTWISE_A],
                    *b = &operands[ELEMENTWISE_B], *out = &operands[ELEMENTWISE_OUT];
  const IronOperand *addend = IronSamePlace(b, c) ? a : b;
  bool is_its = before->arguments.planes == 1 && (IronSamePlace(a, c) || IronSamePlace(b, c));
  bool apart = !IronOverlap(addend, c) && !IronOverlap(out, c) && !IronOverlap(out, &of[MATMUL_PANELS_B]) &&
               !(before->arguments.has_bias && IronOverlap(out, &of[MATMUL_PANELS_BIAS]));
  bool in_place = !IronOverlap(out, addend) || IronSamePlace(out, addend);
  if (!is_its || !apart || !in_place) return false;
  Panels panels = *before;
  panels.operands[MATMUL_PANELS_ADDEND] = *addend;
  panels.operands[MATMUL_PANELS_OUT] = *out;
  panels.arguments.has_addend = true;
  *status = put_off(commands, &panels, operands, ELEMENTWISE_ARGS, true);
  return true;
}

/* silu(first plane) times the second. */
static bool record_gate(IronCommands *commands, const Panels *before, const IronOperand *operands,
                        iron_status *status) {
  const IronOperand *of = before->operands, *c = &of[MATMUL_PANELS_C], *a = &operands[ELEMENTWISE_A],
                    *b = &operands[ELEMENTWISE_B], *out = &operands[ELEMENTWISE_OUT];
  bool are_its = before->arguments.planes == 2 && IronSamePlace(a, c) && b->buffer == c->buffer &&
                 b->offset == c->offset + c->length;
  bool in_place = IronSamePlace(out, c) || !(IronOverlap(out, c) || IronOverlap(out, b));
  IronOperand second = of[MATMUL_PANELS_B];
  second.length *= 2;
  if (!are_its || !in_place || IronOverlap(out, &second)) return false;
  Panels panels = *before;
  panels.operands[MATMUL_PANELS_OUT] = *out;
  panels.arguments.gated = true;
  *status = put_off(commands, &panels, operands, ELEMENTWISE_ARGS, true);
  return true;
}

bool IronMatmulPanelsRecordRow(IronCommands *commands, IronOperation operation, const IronOperand *operands,
                               const void *arguments, iron_status *status) {
  if (operation != IRON_OPERATION_ADD && operation != IRON_OPERATION_SILU_MUL) return false;
  const Panels *before = [commands putOffBy:encode];
  const elementwise_args *args = arguments;
  if (!before || !is_plain(before) || args->count != (uint64_t)before->arguments.m * before->arguments.n) return false;
  return operation == IRON_OPERATION_ADD ? record_sum(commands, before, operands, status)
                                         : record_gate(commands, before, operands, status);
}
