#import "fusion.h"

#include <stdlib.h>

#import "base/entry.h"
#import "pipelines.h"

enum {
  PRODUCT_OPERANDS = MATVEC_BYTES_ARGS,
  JOINED_OPERANDS = MATVEC_JOINED_ARGS,
  NORM_OPERANDS = RMS_NORM_ARGS,
  STORE_OPERANDS = ROPE_STORE_ARGS
};

/* What was put off: a norm, a product or a rotation, with what has joined it. Its buffers are the submission's since it
 * was recorded. */
typedef struct PutOff {
  enum { NORM, PRODUCT, ROTATION } kind;
  IronKernelPass pass;
  IronOperand operands[JOINED_OPERANDS];
  union {
    rms_norm_args norm;
    matvec_bytes_args product;
    matvec_joined_args joined; /* of family matvec_joined; begins with the same */
    rope_store_args rotation;
  } arguments;
} PutOff;

static void encode(void *what, id<MTLComputeCommandEncoder> encoder) {
  PutOff *put_off = what;
  IronPass *pass = &put_off->pass.pass;
  pass->operands = put_off->operands;
  pass->arguments = &put_off->arguments;
  IronPassEncode(&put_off->pass, encoder);
}

/* Records the uses of `operands` without encoding anything, and puts `next` off. `joins`: it has what was put off
 * before in it, which else is encoded first. */
static iron_status put_off(IronCommands *commands, PutOff *next, const IronOperand *operands, size_t count,
                           bool joins) {
  IronLocation location = IronLocationTake();
  PutOff *kept = [commands roomForPutOff:sizeof *kept];
  if (!kept) return IRON_ERROR_OUT_OF_MEMORY;
  uint64_t bytes;
  IRON_TRY(IronOperationPrepareToPutOff(commands, operands, count, joins, &bytes));
  *kept = *next;
  IronOperationPutOff(commands, encode, bytes, location, operands, count);
  return IRON_OK;
}

/* What a threadgroup of the product reads after another may have written `out`. */
static bool may_write(const PutOff *product, const IronOperand *out) {
  const IronOperand *all = product->operands;
  const matvec_bytes_args *args = &product->arguments.product;
  bool is_joined = IronProductIsJoined(product->pass.pass.kernel);
  if (is_joined && (IronOverlap(out, &all[MATVEC_JOINED_SECOND_B]) || IronOverlap(out, &all[MATVEC_JOINED_THIRD_B])))
    return false;
  return !IronOverlap(out, &all[MATVEC_BYTES_A]) && !IronOverlap(out, &all[MATVEC_BYTES_B]) &&
         !(args->has_norm &&
           (IronOverlap(out, &all[MATVEC_BYTES_NORM]) || IronOverlap(out, &all[MATVEC_BYTES_NORMED])));
}

/* The product that was put off and that nothing but a norm has joined. */
static PutOff *plain_product(IronCommands *commands) {
  PutOff *before = [commands putOffBy:encode];
  if (!before || before->kind != PRODUCT) return NULL;
  const matvec_bytes_args *args = &before->arguments.product;
  return args->has_addend || args->keeps_product || args->rotary_dim ? NULL : before;
}

static bool record_norm(IronCommands *commands, const IronOperand *operands, const rms_norm_args *args,
                        iron_status *status) {
  int kernel = IronKernelFind(IRON_OPERATION_RMS_NORM, 0, 0, args, operands);
  if (args->rows != 1 || kernel < 0 || !IronKernelTable[kernel].when) return false;
  PutOff norm = {.kind = NORM, .arguments.norm = *args};
  for (size_t index = 0; index < NORM_OPERANDS; index++) norm.operands[index] = operands[index];
  norm.pass.pass = (IronPass){.kernel = kernel,
                              .operand_count = NORM_OPERANDS,
                              .arguments_size = sizeof *args,
                              .grid = {args->rows, 1, 1}};
  *status = IronPassPrepare(&norm.pass, commands->device);
  if (*status == IRON_OK) *status = put_off(commands, &norm, operands, NORM_OPERANDS, false);
  return true;
}

/* x + y, of which one is what the product before made. */
static bool record_sum(IronCommands *commands, const IronOperand *operands, const elementwise_args *args,
                       iron_status *status) {
  PutOff *before = plain_product(commands);
  if (!before || args->count != before->arguments.product.n) return false;
  const IronOperand *product = &before->operands[MATVEC_BYTES_OUT], *a = &operands[ELEMENTWISE_A],
                    *b = &operands[ELEMENTWISE_B], *out = &operands[ELEMENTWISE_OUT];
  const IronOperand *addend = IronSamePlace(b, product) ? a : b;
  bool is_its = IronSamePlace(a, product) || IronSamePlace(b, product);
  bool apart = !IronOverlap(addend, product) && !IronOverlap(out, product) && may_write(before, out);
  bool in_place = !IronOverlap(out, addend) || IronSamePlace(out, addend);
  if (!is_its || !apart || !in_place) return false;
  PutOff joined = *before;
  joined.operands[MATVEC_BYTES_ADDEND] = *addend;
  joined.operands[MATVEC_BYTES_PRODUCT] = *product;
  joined.operands[MATVEC_BYTES_OUT] = *out;
  joined.arguments.product.has_addend = joined.arguments.product.keeps_product = true;
  *status = put_off(commands, &joined, operands, ELEMENTWISE_ARGS, true);
  return true;
}

/* silu(x) y of the two halves of what the product before made. */
static bool record_gate(IronCommands *commands, const IronOperand *operands, const elementwise_args *args,
                        iron_status *status) {
  PutOff *before = plain_product(commands);
  if (!before) return false;
  const IronOperand *product = &before->operands[MATVEC_BYTES_OUT], *a = &operands[ELEMENTWISE_A],
                    *b = &operands[ELEMENTWISE_B], *out = &operands[ELEMENTWISE_OUT];
  uint64_t count = args->count;
  bool is_half = 2 * count == before->arguments.product.n && count % IronProductRows(before->pass.pass.kernel) == 0;
  bool halves = IronSamePlace(a, product) && b->buffer == product->buffer &&
                b->offset == product->offset + count * sizeof(float);
  bool in_place = !IronOverlap(out, product) || IronSamePlace(out, product);
  if (!is_half || !halves || !in_place || !may_write(before, out)) return false;
  PutOff joined = *before;
  joined.operands[MATVEC_BYTES_PRODUCT] = *product;
  joined.operands[MATVEC_BYTES_OUT] = *out;
  joined.arguments.product.n = (uint32_t)count;
  joined.arguments.product.gated = joined.arguments.product.keeps_product = true;
  *status = put_off(commands, &joined, operands, ELEMENTWISE_ARGS, true);
  return true;
}

bool IronFusionRecordRow(IronCommands *commands, IronOperation operation, const IronOperand *operands, size_t count,
                         const void *arguments, iron_status *status) {
  (void)count;
  switch (operation) {
    case IRON_OPERATION_RMS_NORM: return record_norm(commands, operands, arguments, status);
    case IRON_OPERATION_ADD: return record_sum(commands, operands, arguments, status);
    case IRON_OPERATION_SILU_MUL: return record_gate(commands, operands, arguments, status);
    default: return false;
  }
}

/* A product of the same row whose outputs follow those of the product before, as models have them of queries, keys and
 * values. */
static bool record_neighbor(IronCommands *commands, int kernel, const IronOperand *operands, const matmul_args *args,
                            iron_status *status) {
  PutOff *before = [commands putOffBy:encode];
  if (!before || before->kind != PRODUCT || before->pass.pass.kernel != kernel || !IronProductIsJoined(kernel))
    return false;
  const matvec_joined_args *old = &before->arguments.joined;
  const IronOperand *all = before->operands, *out = &all[MATVEC_BYTES_OUT], *b = &operands[MATMUL_B],
                    *c = &operands[MATMUL_C];
  bool is_plain = !old->product.has_addend && !old->product.keeps_product && !old->product.rotary_dim &&
                  !args->has_bias;
  bool is_full = old->third_row < old->product.n;
  bool is_alike = IronSamePlace(&operands[MATMUL_A], &all[MATVEC_BYTES_A]) && args->k == old->product.k &&
                  args->b_row_stride == old->product.b_row_stride;
  bool follows = c->buffer == out->buffer && c->offset == out->offset + old->product.n * sizeof(float) &&
                 (uint64_t)old->product.n + args->n <= UINT32_MAX;
  if (!is_plain || is_full || !is_alike || !follows || IronOverlap(b, out) || !may_write(before, c)) return false;

  PutOff joined = *before;
  matvec_joined_args *now = &joined.arguments.joined;
  bool is_third = old->second_row < old->product.n;
  joined.operands[is_third ? MATVEC_JOINED_THIRD_B : MATVEC_JOINED_SECOND_B] = *b;
  *(is_third ? &now->third_row : &now->second_row) = old->product.n;
  now->product.n += args->n;
  joined.operands[MATVEC_BYTES_OUT].length += c->length;
  joined.pass.pass.grid.width = now->product.n;
  *status = put_off(commands, &joined, operands, MATMUL_ARGS, true);
  return true;
}

iron_status IronFusionRecordProduct(IronCommands *commands, int kernel, const IronOperand *operands,
                                    const matmul_args *args) {
  const IronOperand *a = &operands[MATMUL_A], *b = &operands[MATMUL_B], *c = &operands[MATMUL_C];
  bool is_joined = IronProductIsJoined(kernel);
  iron_status status;
  if (record_neighbor(commands, kernel, operands, args, &status)) return status;
  PutOff product = {.kind = PRODUCT,
                    .arguments.product = {.b_row_stride = args->b_row_stride,
                                          .n = args->n,
                                          .k = args->k,
                                          .has_addend = args->has_bias,
                                          .written = [commands isWritten:b->buffer]}};
  IronOperand *all = product.operands;
  for (size_t index = 0; index < JOINED_OPERANDS; index++) all[index] = *c;
  all[MATVEC_BYTES_A] = *a;
  all[MATVEC_BYTES_B] = all[MATVEC_JOINED_SECOND_B] = all[MATVEC_JOINED_THIRD_B] = *b;
  all[MATVEC_BYTES_ADDEND] = operands[MATMUL_BIAS];
  product.pass.pass = (IronPass){.kernel = kernel,
                                 .operand_count = is_joined ? JOINED_OPERANDS : PRODUCT_OPERANDS,
                                 .arguments_size = is_joined ? sizeof product.arguments.joined
                                                             : sizeof product.arguments.product,
                                 .grid = {is_joined ? args->n : commands->device->cores, 1, 1},
                                 .threadgroup_memory = IronProductMemory(kernel, args)};
  if (is_joined) product.arguments.joined.second_row = product.arguments.joined.third_row = UINT32_MAX;
  IRON_TRY(IronPassPrepare(&product.pass, commands->device));

  const PutOff *before = [commands putOffBy:encode];
  bool joins = !is_joined && before && before->kind == NORM && IronSamePlace(a, &before->operands[RMS_NORM_OUT]) &&
               before->arguments.norm.width == args->k;
  if (joins) {
    const IronOperand *x = &before->operands[RMS_NORM_X], *normed = &before->operands[RMS_NORM_OUT];
    /* Threadgroups read x at their own times: one of them must not write over it. */
    joins = !IronOverlap(x, normed) && !IronOverlap(x, c) && !IronOverlap(&before->operands[RMS_NORM_WEIGHT], c) &&
            !IronOverlap(&before->operands[RMS_NORM_WEIGHT], normed) && !IronOverlap(b, normed);
    if (joins) {
      all[MATVEC_BYTES_A] = *x;
      all[MATVEC_BYTES_NORM] = before->operands[RMS_NORM_WEIGHT];
      all[MATVEC_BYTES_NORMED] = *normed;
      product.arguments.product.eps = before->arguments.norm.eps;
      product.arguments.product.has_norm = true;
      product.arguments.product.written |= [commands isWritten:before->operands[RMS_NORM_WEIGHT].buffer];
    }
  }
  return put_off(commands, &product, operands, MATMUL_ARGS, joins);
}

/* A rotation of what the product before made, whose threads have pairs of neighbors. */
static bool record_rotated_product(IronCommands *commands, const IronOperand *operands, const rope_args *args,
                                   iron_status *status) {
  PutOff *before = [commands putOffBy:encode];
  if (!before || before->kind != PRODUCT) return false;
  const matvec_bytes_args *old = &before->arguments.product;
  const IronOperand *out = &before->operands[MATVEC_BYTES_OUT], *normed = &before->operands[MATVEC_BYTES_NORMED],
                    *positions = &operands[ROPE_POSITIONS], *factors = &operands[ROPE_FACTORS];
  const IronPass *pass = &before->pass.pass;
  bool is_plain = !old->keeps_product && !old->rotary_dim && old->n % 2 == 0 &&
                  IronProductRotates(pass->kernel, old->n, pass->grid.width);
  bool are_its = IronSamePlace(&operands[ROPE_X], out) && (uint64_t)args->heads * args->rotary_dim <= old->n;
  bool are_apart = !IronOverlap(positions, out) && !IronOverlap(positions, normed) &&
                   !(args->has_factors && (IronOverlap(factors, out) || IronOverlap(factors, normed)));
  if (!is_plain || !are_its || !are_apart || args->pairing != ROPE_PAIRING_INTERLEAVED) return false;
  PutOff joined = *before;
  joined.operands[MATVEC_BYTES_POSITIONS] = *positions;
  joined.operands[MATVEC_BYTES_FACTORS] = *factors;
  matvec_bytes_args *now = &joined.arguments.product;
  now->heads = args->heads;
  now->rotary_dim = args->rotary_dim;
  now->frequency_base = args->frequency_base;
  now->frequency_scale = args->frequency_scale;
  now->has_factors = args->has_factors;
  *status = put_off(commands, &joined, operands, ROPE_ARGS, true);
  return true;
}

bool IronFusionRecordRope(IronCommands *commands, const IronOperand *operands, const rope_args *args, uint64_t head_dim,
                          iron_status *status) {
  const IronOperand *x = &operands[ROPE_X];
  if (args->tokens == 1 && args->rotary_dim == head_dim && record_rotated_product(commands, operands, args, status))
    return true;
  int kernel = IronKernelFind(IRON_OPERATION_ROPE_STORE, IRON_F32, 0, args, operands);
  if (kernel < 0 || args->tokens != 1 || args->rotary_dim != head_dim) return false;
  PutOff rotation = {.kind = ROTATION,
                     .arguments.rotation = {.heads = args->heads,
                                            .all_heads = args->heads,
                                            .rotary_dim = args->rotary_dim,
                                            .pairing = args->pairing,
                                            .frequency_base = args->frequency_base,
                                            .frequency_scale = args->frequency_scale,
                                            .has_factors = args->has_factors}};
  for (size_t index = 0; index < STORE_OPERANDS; index++) rotation.operands[index] = *x;
  rotation.operands[ROPE_STORE_POSITIONS] = operands[ROPE_POSITIONS];
  rotation.operands[ROPE_STORE_FACTORS] = operands[ROPE_FACTORS];
  rotation.pass.pass = (IronPass){.kernel = kernel,
                                  .operand_count = STORE_OPERANDS,
                                  .arguments_size = sizeof rotation.arguments.rotation,
                                  .grid = {args->rotary_dim / 2, args->heads, 1}};
  *status = IronPassPrepare(&rotation.pass, commands->device);
  if (*status == IRON_OK) *status = put_off(commands, &rotation, operands, ROPE_ARGS, false);
  return true;
}

/* A copy of neighbors of a product that is rotated. */
static bool record_copied_product(IronCommands *commands, PutOff *before, const IronOperand *operands,
                                  const copy_args *args, iron_status *status) {
  const matvec_bytes_args *old = &before->arguments.product;
  const IronOperand *src = &operands[COPY_SRC], *dst = &operands[COPY_DST], *all = before->operands,
                    *out = &all[MATVEC_BYTES_OUT];
  uint32_t bytes = dst->dtype == IRON_F32 ? 4 : dst->dtype == IRON_F16 ? 2 : 0;
  bool is_second = old->first_width != 0;
  if (!old->rotary_dim || old->second_width || !bytes || (is_second && bytes != old->copy_bytes)) return false;
  if (src->buffer != out->buffer || src->offset < out->offset || (src->offset - out->offset) % sizeof(float))
    return false;
  uint64_t start = (src->offset - out->offset) / sizeof(float);
  if (start + args->width > old->n) return false;
  bool apart = !IronOverlap(dst, out) && may_write(before, dst) && !IronOverlap(dst, &all[MATVEC_BYTES_POSITIONS]) &&
               !(old->has_factors && IronOverlap(dst, &all[MATVEC_BYTES_FACTORS])) &&
               !(old->has_addend && IronOverlap(dst, &all[MATVEC_BYTES_ADDEND])) &&
               !(is_second && IronOverlap(dst, &all[MATVEC_BYTES_FIRST]));
  if (!apart) return false;

  PutOff joined = *before;
  matvec_bytes_args *now = &joined.arguments.product;
  joined.operands[is_second ? MATVEC_BYTES_SECOND : MATVEC_BYTES_FIRST] = *dst;
  *(is_second ? &now->second_start : &now->first_start) = (uint32_t)start;
  *(is_second ? &now->second_width : &now->first_width) = args->width;
  now->copy_bytes = bytes;
  *status = put_off(commands, &joined, operands, COPY_ARGS, true);
  return true;
}

bool IronFusionRecordCopy(IronCommands *commands, const IronOperand *operands, const copy_args *args,
                          iron_status *status) {
  PutOff *before = [commands putOffBy:encode];
  const IronOperand *src = &operands[COPY_SRC], *dst = &operands[COPY_DST];
  if (!before || args->rows != 1 || src->dtype != IRON_F32) return false;
  if (before->kind == PRODUCT) return record_copied_product(commands, before, operands, args, status);
  if (before->kind != ROTATION || before->arguments.rotation.second_width) return false;
  const rope_store_args *old = &before->arguments.rotation;
  const IronOperand *x = &before->operands[ROPE_STORE_X];
  int kernel = IronKernelFind(IRON_OPERATION_ROPE_STORE, dst->dtype, 0, old, before->operands);
  bool is_second = old->first_width != 0;
  bool is_other = is_second && kernel != before->pass.pass.kernel;
  if (kernel < 0 || is_other || src->buffer != x->buffer || src->offset < x->offset) return false;
  uint64_t start = (src->offset - x->offset) / sizeof(float), end = start + args->width;
  /* Threads read and write x in an order of their own, and so do those of one copy beside the other's. */
  IronOperand all = *x;
  all.length = end * sizeof(float) > x->length ? end * sizeof(float) : x->length;
  bool apart = !IronOverlap(dst, &all) && !IronOverlap(dst, &before->operands[ROPE_STORE_POSITIONS]) &&
               !(old->has_factors && IronOverlap(dst, &before->operands[ROPE_STORE_FACTORS])) &&
               !(is_second && (IronOverlap(dst, &before->operands[ROPE_STORE_FIRST]) ||
                               IronOverlap(&before->operands[ROPE_STORE_FIRST], &all)));
  if ((src->offset - x->offset) % sizeof(float) || end > UINT32_MAX || !apart) return false;

  PutOff joined = *before;
  rope_store_args *now = &joined.arguments.rotation;
  uint32_t all_heads = (uint32_t)((end + now->rotary_dim - 1) / now->rotary_dim);
  /* A last head that is not whole would be read beyond what is known to be there. */
  if (all_heads > now->all_heads && end % now->rotary_dim) return false;
  if (all_heads > now->all_heads) now->all_heads = all_heads;
  joined.operands[is_second ? ROPE_STORE_SECOND : ROPE_STORE_FIRST] = *dst;
  *(is_second ? &now->second_start : &now->first_start) = (uint32_t)start;
  *(is_second ? &now->second_width : &now->first_width) = args->width;
  if (!is_second) joined.operands[ROPE_STORE_SECOND] = *dst;
  joined.pass.pass.kernel = kernel;
  joined.pass.pass.grid.height = now->all_heads;
  *status = IronPassPrepare(&joined.pass, commands->device);
  if (*status == IRON_OK) *status = put_off(commands, &joined, operands, COPY_ARGS, true);
  return true;
}
