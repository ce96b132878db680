#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "base/structs.h"
#import "heads.h"
#import "operation.h"

enum { OPERANDS = ATTENTION_BACKWARD_ARGS };

static iron_status check_values(const iron_attention_backward *attention) {
  IRON_TRY(IronHeadsCheck(attention->tokens, attention->heads, attention->kv_heads, attention->head_dim));
  if (!isfinite(attention->scale))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "scale: is %g", (double)attention->scale);
  return IRON_OK;
}

/* The caller's tensors. */
enum { Q, K, V, OUT, GRADIENT, INPUTS, Q_GRADIENT = INPUTS, K_GRADIENT, V_GRADIENT, TENSORS };

static iron_status resolve(IronOperand *operands, const iron_attention_backward *attention, IronCommands *commands) {
  static const char *const names[TENSORS] = {"q",        "k",          "v",          "out",
                                             "gradient", "q_gradient", "k_gradient", "v_gradient"};
  const iron_tensor *tensors[TENSORS] = {&attention->q,          &attention->k,          &attention->v,
                                         &attention->out,        &attention->gradient,   &attention->q_gradient,
                                         &attention->k_gradient, &attention->v_gradient};
  for (int index = 0; index < TENSORS; index++) {
    bool of_keys = index == K || index == V || index == K_GRADIENT || index == V_GRADIENT;
    IronShape shape = {.rows = attention->tokens,
                       .width = (of_keys ? attention->kv_heads : attention->heads) * attention->head_dim};
    IRON_TRY(IronOperandResolve(&operands[index], names[index], tensors[index], shape, IRON_TYPES_F32,
                                index < INPUTS ? IRON_ACCESS_READ : IRON_ACCESS_WRITE, commands));
    for (int other = 0; index >= INPUTS && other < index; other++)
      IRON_TRY(IronOperandsCheckOverlap(&operands[index], &operands[other], false));
  }
  return IRON_OK;
}

/* The gradient of q comes with sums that those of k and v need; between the passes they are in scratch memory. */
static iron_status encode_passes(IronCommands *commands, const IronOperand *given,
                                 const attention_backward_args *arguments) {
  uint64_t places = (uint64_t)arguments->tokens * arguments->heads;
  if (places > UINT32_MAX)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "tokens: %u times %u heads are more than a kernel can count",
                           arguments->tokens, arguments->heads);
  uint64_t bytes = 2 * places * sizeof(float);
  IronBuffer *scratch = [commands scratchOfLength:bytes];
  if (!scratch) return IRON_ERROR_OUT_OF_MEMORY;
  IronOperand written = {.name = "scratch", .buffer = scratch, .access = IRON_ACCESS_WRITE, .length = bytes};
  IronOperand read = written;
  read.access = IRON_ACCESS_READ;
  const IronOperand of_q[OPERANDS] = {
      [ATTENTION_BACKWARD_Q] = given[Q],       [ATTENTION_BACKWARD_K] = given[K],
      [ATTENTION_BACKWARD_V] = given[V],       [ATTENTION_BACKWARD_GRADIENT] = given[GRADIENT],
      [ATTENTION_BACKWARD_SUMS] = written,     [ATTENTION_BACKWARD_OUT] = given[OUT],
      [ATTENTION_BACKWARD_Q_GRADIENT] = given[Q_GRADIENT],
  };
  const IronOperand of_kv[OPERANDS] = {
      [ATTENTION_BACKWARD_Q] = given[Q],
      [ATTENTION_BACKWARD_K] = given[K],
      [ATTENTION_BACKWARD_V] = given[V],
      [ATTENTION_BACKWARD_GRADIENT] = given[GRADIENT],
      [ATTENTION_BACKWARD_SUMS] = read,
      [ATTENTION_BACKWARD_K_GRADIENT] = given[K_GRADIENT],
      [ATTENTION_BACKWARD_V_GRADIENT] = given[V_GRADIENT],
  };
  int first = IronKernelFind(IRON_OPERATION_ATTENTION_BACKWARD_Q, 0, 0, arguments, of_q);
  int second = IronKernelFind(IRON_OPERATION_ATTENTION_BACKWARD_KV, 0, 0, arguments, of_kv);
  const IronPass passes[] = {
      {first, of_q, OPERANDS, arguments, sizeof *arguments, {arguments->heads, arguments->tokens, 1}, 0},
      {second, of_kv, OPERANDS, arguments, sizeof *arguments, {arguments->kv_heads, arguments->tokens, 1}, 0},
  };
  return IronOperationEncodePasses(commands, passes, sizeof passes / sizeof *passes);
}

iron_status iron_encode_attention_backward(iron_commands *handle, const iron_attention_backward *caller) {
  IRON_ENTRY {
    iron_attention_backward attention;
    IRON_READ_STRUCT(attention, caller, "attention");
    IRON_RECORD(commands, handle);
    IRON_TRY(check_values(&attention));
    IronOperand operands[TENSORS];
    IRON_TRY(resolve(operands, &attention, commands));
    attention_backward_args arguments = {
        .q_stride = operands[Q].row_stride,
        .k_stride = operands[K].row_stride,
        .v_stride = operands[V].row_stride,
        .gradient_stride = operands[GRADIENT].row_stride,
        .out_stride = operands[OUT].row_stride,
        .q_gradient_stride = operands[Q_GRADIENT].row_stride,
        .k_gradient_stride = operands[K_GRADIENT].row_stride,
        .v_gradient_stride = operands[V_GRADIENT].row_stride,
        .tokens = (uint32_t)attention.tokens,
        .heads = (uint32_t)attention.heads,
        .kv_heads = (uint32_t)attention.kv_heads,
        .head_dim = (uint32_t)attention.head_dim,
        .scale = attention.scale == 0 ? 1 / sqrtf((float)attention.head_dim) : attention.scale,
    };
    return encode_passes(commands, operands, &arguments);
  } IRON_LEAVE
}
