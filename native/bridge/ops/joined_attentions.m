#import "joined_attentions.h"

#include <string.h>

#import "attention_pieces.h"
#import "base/entry.h"

/* The attentions that were put off. Their buffers are the submission's since they were recorded. */
typedef struct Attentions {
  IronOperand operands[ATTENTION_ARGS]; /* the first one's */
  attention_args alone;                 /* of the first one */
  attention_texts_args arguments;
  /* How they are done. */
  struct Plan {
    uint32_t count, splits;
    uint64_t keys;                /* of all */
    IronOperand parts;            /* what several pieces make, for all of them */
    IronKernelPass pieces, merge; /* without what they point to; the merge only of several pieces */
  } plan;
} Attentions;
typedef struct Plan Plan;

static void encode_pass(IronKernelPass *pass, const Attentions *all, IronOperand *operands,
                        id<MTLComputeCommandEncoder> encoder) {
  for (size_t index = 0; index < pass->pass.operand_count; index++)
    if (all->plan.count > 1) operands[index].offset = 0;
  pass->pass.operands = operands;
  pass->pass.arguments = all->plan.count > 1 ? (const void *)&all->arguments : &all->alone;
  IronPassEncode(pass, encoder);
}

static void encode(void *what, id<MTLComputeCommandEncoder> encoder) {
  Attentions *all = what;
  const IronOperand *of = all->operands;
  IronOperand pieces[] = {[ATTENTION_Q] = of[ATTENTION_Q],
                          [ATTENTION_K] = of[ATTENTION_K],
                          [ATTENTION_V] = of[ATTENTION_V],
                          [ATTENTION_OUT] = all->plan.splits > 1 ? all->plan.parts : of[ATTENTION_OUT]};
  IronOperand merge[] = {[ATTENTION_MERGE_PARTS] = all->plan.parts, [ATTENTION_MERGE_OUT] = of[ATTENTION_OUT]};
  encode_pass(&all->plan.pieces, all, pieces, encoder);
  if (all->plan.splits > 1) encode_pass(&all->plan.merge, all, merge, encoder);
}

/* Whether the kernel of several does an attention: none of them reads what another one writes. */
static bool may_be_joined(const IronOperand *operands, const attention_args *args) {
  const IronBuffer *out = operands[ATTENTION_OUT].buffer;
  return args->heads_at_once > 0 && args->tokens == 1 && out != operands[ATTENTION_Q].buffer &&
         out != operands[ATTENTION_K].buffer && out != operands[ATTENTION_V].buffer;
}

/* Whether an attention is like those before, and writes nothing that one of them writes. */
static bool fits(const Attentions *all, const IronOperand *operands, const attention_args *args) {
  const attention_args *first = &all->alone;
  bool alike = args->heads == first->heads && args->kv_heads == first->kv_heads && args->head_dim == first->head_dim &&
               args->k_token_stride == first->k_token_stride && args->k_head_stride == first->k_head_stride &&
               args->v_token_stride == first->v_token_stride && args->v_head_stride == first->v_head_stride &&
               args->scale == first->scale && operands[ATTENTION_K].dtype == all->operands[ATTENTION_K].dtype;
  for (size_t index = 0; index < ATTENTION_ARGS; index++)
    alike &= operands[index].buffer == all->operands[index].buffer;
  if (!alike || all->plan.count == ATTENTION_TEXTS) return false;
  const IronOperand *out = &operands[ATTENTION_OUT];
  for (const attention_text *text = all->arguments.texts; text < all->arguments.texts + all->plan.count; text++)
    if (text->out < out->offset + out->length && out->offset < text->out + out->length) return false;
  return true;
}

/* Memory for the pieces of all, and for some more, so that it is not made again for each one that joins them. The
 * operand's length is what the newest one writes and reads. */
static bool make_room(Plan *plan, const attention_args *args, IronCommands *commands) {
  if (plan->splits == 1) return true;
  uint64_t room = 1, of_one = (uint64_t)plan->splits * args->heads * (args->head_dim + 2) * sizeof(float);
  while (room < plan->count) room *= 2;
  IronBuffer *scratch = [commands scratchOfLength:room * of_one];
  plan->parts = (IronOperand){
      .name = "scratch", .buffer = scratch, .access = IRON_ACCESS_WRITE, .length = 2 * of_one, .whole = true};
  return scratch != NULL;
}

static IronKernelPass pass_of(int kernel, size_t operand_count, size_t arguments_size, IronGrid grid) {
  return (IronKernelPass){.pass = {.kernel = kernel,
                                   .operand_count = operand_count,
                                   .arguments_size = arguments_size,
                                   .grid = grid}};
}

/* The pieces of the texts' keys; sets how long they are. */
static uint32_t share_out(attention_text *texts, uint32_t count, const attention_args *args, uint32_t cores) {
  uint64_t most = 1;
  for (attention_text *text = texts; text < texts + count; text++) {
    uint64_t keys = IronAttentionKeys(text->position, text->window);
    uint64_t length = IronAttentionPieceLength(args, keys, count, cores), pieces = (keys + length - 1) / length;
    text->split_length = (uint32_t)length;
    if (most < pieces) most = pieces;
  }
  return (uint32_t)most;
}

/* How the texts of `before` and the newest one are done, or that one alone, with its operands. `texts` are all. */
static iron_status make_plan(Plan *plan, const Plan *before, attention_text *texts, const IronOperand *operands,
                             const attention_args *newest, IronCommands *commands) {
  attention_args args = *newest;
  *plan = (Plan){.count = 1, .splits = args.splits, .keys = IronAttentionKeys(args.first_position, args.window)};
  bool joined = before != NULL;
  if (joined) {
    plan->count += before->count;
    plan->keys += before->keys;
    args.heads_at_once = IronAttentionHeadsAtOnce(&args, plan->keys);
    plan->splits = share_out(texts, plan->count, &args, commands->device->cores);
  }
  if (!make_room(plan, &args, commands)) return IRON_ERROR_OUT_OF_MEMORY;
  iron_dtype type = operands[ATTENTION_K].dtype;
  size_t size = joined ? sizeof(attention_texts_args) : sizeof args;
  IronOperation attention = joined ? IRON_OPERATION_ATTENTION_TEXTS : IRON_OPERATION_ATTENTION,
                merge = joined ? IRON_OPERATION_ATTENTION_TEXTS_MERGE : IRON_OPERATION_ATTENTION_MERGE;
  plan->pieces = pass_of(IronKernelFind(attention, type, 0, &args, operands), ATTENTION_ARGS, size,
                         (IronGrid){plan->splits, IronAttentionBundles(&args), plan->count});
  IRON_TRY(IronPassPrepare(&plan->pieces, commands->device));
  if (plan->splits == 1) return IRON_OK;
  plan->merge = pass_of(IronKernelFind(merge, 0, 0, &args, operands), ATTENTION_MERGE_ARGS, size,
                        (IronGrid){args.heads, plan->count, 1});
  return IronPassPrepare(&plan->merge, commands->device);
}

static attention_text text_of(const IronOperand *operands, const attention_args *args) {
  return (attention_text){.q = operands[ATTENTION_Q].offset,
                          .k = operands[ATTENTION_K].offset,
                          .v = operands[ATTENTION_V].offset,
                          .out = operands[ATTENTION_OUT].offset,
                          .position = args->first_position,
                          .window = args->window,
                          .split_length = args->split_length};
}

static void add(Attentions *all, const Plan *plan, const attention_text *texts, const IronOperand *operands,
                const attention_args *args) {
  if (plan->count == 1) {
    *all = (Attentions){.alone = *args, .arguments.common = *args};
    for (size_t index = 0; index < ATTENTION_ARGS; index++) all->operands[index] = operands[index];
  }
  all->plan = *plan;
  all->arguments.common.splits = plan->splits;
  all->arguments.common.tokens = plan->count;
  memcpy(all->arguments.texts, texts, plan->count * sizeof *texts);
}

static iron_status put_off(IronCommands *commands, const IronOperand *operands, const attention_args *args) {
  IronLocation location = IronLocationTake();
  Attentions *kept = [commands roomForPutOff:sizeof *kept];
  if (!kept) return IRON_ERROR_OUT_OF_MEMORY;
  bool joins = [commands putOffBy:encode] && fits(kept, operands, args);
  uint32_t before = joins ? kept->plan.count : 0;
  attention_text texts[ATTENTION_TEXTS];
  memcpy(texts, kept->arguments.texts, before * sizeof *texts);
  texts[before] = text_of(operands, args);
  Plan plan;
  iron_status status = make_plan(&plan, joins ? &kept->plan : NULL, texts, operands, args, commands);
  if (status != IRON_OK && joins) {
    /* Alone it takes less memory. */
    joins = false;
    texts[0] = text_of(operands, args);
    status = make_plan(&plan, NULL, texts, operands, args, commands);
  }
  IRON_TRY(status);
  const IronOperand used[] = {operands[ATTENTION_Q], operands[ATTENTION_K], operands[ATTENTION_V],
                              operands[ATTENTION_OUT], plan.parts};
  uint64_t bytes;
  IRON_TRY(IronOperationPrepareToPutOff(commands, used, plan.splits > 1 ? ATTENTION_ARGS + 1 : ATTENTION_ARGS, joins,
                                        &bytes));
  add(kept, &plan, texts, operands, args);
  IronOperationPutOff(commands, encode, bytes, location, operands, ATTENTION_ARGS);
  return IRON_OK;
}

bool IronJoinedAttentionsRecord(IronCommands *commands, const IronOperand *operands, const attention_args *args,
                                iron_status *status) {
  if (!may_be_joined(operands, args)) return false;
  *status = put_off(commands, operands, args);
  return true;
}
