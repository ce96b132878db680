#import "joined_copies.h"

#import "base/entry.h"

/* The copies that were put off. Their buffers are the submission's since they were recorded. */
typedef struct Copies {
  IronOperand operands[COPIES_ARGS]; /* the first one's, and the first destination in another buffer than that */
  copy_args alone;                   /* of the first one */
  copies_args arguments;
  IronKernelPass pass; /* without what it points to */
} Copies;

static void encode(void *what, id<MTLComputeCommandEncoder> encoder) {
  Copies *copies = what;
  bool joined = copies->arguments.count > 1;
  IronOperand operands[COPIES_ARGS];
  for (size_t index = 0; index < COPIES_ARGS; index++) {
    operands[index] = copies->operands[index];
    if (joined) operands[index].offset = 0;
  }
  IronPass *pass = &copies->pass.pass;
  pass->operands = operands;
  pass->arguments = joined ? (const void *)&copies->arguments : &copies->alone;
  IronPassEncode(&copies->pass, encoder);
}

/* Whether the kernel of several does a copy: its rows read nothing that another one may have written. */
static bool may_be_joined(const IronOperand *operands, const copy_args *args) {
  const IronOperand *src = &operands[COPY_SRC], *dst = &operands[COPY_DST];
  return args->rows == 1 && src->buffer != dst->buffer &&
         IronKernelFind(IRON_OPERATION_COPIES, src->dtype, dst->dtype, args, operands) >= 0;
}

/* Whether a copy is like those before, and writes nothing that one of them writes. */
static bool fits(const Copies *copies, const IronOperand *operands, const copy_args *args) {
  const IronOperand *src = &operands[COPY_SRC], *dst = &operands[COPY_DST], *first = &copies->operands[COPIES_FIRST],
                    *second = &copies->operands[COPIES_SECOND];
  const copies_args *all = &copies->arguments;
  bool alike = args->width == all->width && src->buffer == copies->operands[COPIES_SRC].buffer &&
               src->dtype == copies->operands[COPIES_SRC].dtype && dst->dtype == first->dtype;
  bool has_place = dst->buffer == first->buffer || dst->buffer == second->buffer ||
                   (second->buffer == first->buffer && dst->buffer != copies->operands[COPIES_SRC].buffer);
  if (!alike || !has_place || all->count == COPIES_ROWS) return false;
  bool in_second = dst->buffer != first->buffer;
  for (const copies_row *row = all->rows; row < all->rows + all->count; row++)
    if (row->in_second == in_second && row->dst < dst->offset + dst->length && dst->offset < row->dst + dst->length)
      return false;
  return true;
}

/* How `count` copies are done, of which this is the newest. */
static iron_status prepare(IronKernelPass *pass, uint32_t count, const IronOperand *operands, const copy_args *args,
                           IronDevice *device) {
  bool joined = count > 1;
  IronOperation operation = joined ? IRON_OPERATION_COPIES : IRON_OPERATION_COPY;
  iron_dtype src = operands[COPY_SRC].dtype, dst = operands[COPY_DST].dtype;
  pass->pass = (IronPass){.kernel = IronKernelFind(operation, src, dst, args, operands),
                          .operand_count = joined ? COPIES_ARGS : COPY_ARGS,
                          .arguments_size = joined ? sizeof(copies_args) : sizeof *args,
                          .grid = {args->width, count, 1}};
  return IronPassPrepare(pass, device);
}

static void add(Copies *copies, const IronOperand *operands, const copy_args *args) {
  const IronOperand *src = &operands[COPY_SRC], *dst = &operands[COPY_DST];
  copies_args *all = &copies->arguments;
  if (all->count == 0) {
    copies->operands[COPIES_SRC] = *src;
    copies->operands[COPIES_FIRST] = copies->operands[COPIES_SECOND] = *dst;
    copies->alone = *args;
    all->width = args->width;
  }
  bool in_second = dst->buffer != copies->operands[COPIES_FIRST].buffer;
  if (in_second) copies->operands[COPIES_SECOND] = *dst;
  all->rows[all->count++] = (copies_row){.src = src->offset, .dst = dst->offset, .in_second = in_second};
}

static iron_status put_off(IronCommands *commands, const IronOperand *operands, const copy_args *args) {
  IronLocation location = IronLocationTake();
  Copies *kept = [commands roomForPutOff:sizeof *kept];
  if (!kept) return IRON_ERROR_OUT_OF_MEMORY;
  bool joins = [commands putOffBy:encode] && fits(kept, operands, args);
  IronKernelPass pass;
  IRON_TRY(prepare(&pass, joins ? kept->arguments.count + 1 : 1, operands, args, commands->device));
  uint64_t bytes;
  IRON_TRY(IronOperationPrepareToPutOff(commands, operands, COPY_ARGS, joins, &bytes));
  if (!joins) *kept = (Copies){.arguments.count = 0};
  add(kept, operands, args);
  kept->pass = pass;
  IronOperationPutOff(commands, encode, bytes, location, operands, COPY_ARGS);
  return IRON_OK;
}

bool IronJoinedCopiesRecord(IronCommands *commands, const IronOperand *operands, const copy_args *args,
                            iron_status *status) {
  if (!may_be_joined(operands, args)) return false;
  *status = put_off(commands, operands, args);
  return true;
}
