/* Every operation, on operands that mostly fit. */
#include "calls.h"

static uint64_t dimension(Call *call) {
  static const uint64_t usual[] = {1, 2, 3, 4, 8, 16, 16, 32, 32, 64};
  Random *random = &call->random;
  return random_chance(random, 95) ? usual[random_below(random, sizeof usual / sizeof *usual)]
                                   : random_count(random, 300);
}

/* Whole blocks of any type. */
static uint64_t blocks(Call *call) { return random_chance(&call->random, 90) ? 256 : dimension(call); }

static iron_dtype any_dtype(Call *call) {
  static const iron_dtype types[] = {
#define DTYPE(id, NAME, ...) IRON_##NAME,
#include "../../native/kernels/dtypes.def"
  };
  Random *random = &call->random;
  if (random_chance(random, 2)) return (iron_dtype)random_bits(random);
  return types[random_below(random, sizeof types / sizeof *types)];
}

static iron_tensor tensor(Call *call, iron_dtype dtype) {
  Random *random = &call->random;
  iron_tensor tensor = {.buffer = handles_any(call, BUFFER),
                        .dtype = random_chance(random, 98) ? dtype : any_dtype(call)};
  if (random_chance(random, 5))
    tensor.offset = random_chance(random, 80) ? random_below(random, 64) * 4 : random_count(random, 8192);
  if (random_chance(random, 5)) tensor.row_stride = random_count(random, 512);
  if (random_chance(random, 5)) tensor.batch_stride = random_count(random, 8192);
  return tensor;
}

static iron_tensor maybe_tensor(Call *call, iron_dtype dtype) {
  return random_chance(&call->random, 50) ? (iron_tensor){.buffer = NULL} : tensor(call, dtype);
}

static void *commands_of(Call *call) { return handles_any(call, COMMANDS); }

/* Calls name(commands, a struct of Type with these fields). */
#define ENCODE(call, name, Type, ...)                              \
  do {                                                             \
    GIVEN(Type) operands = {.value = {__VA_ARGS__}};               \
    given_input(call, &operands, sizeof(Type));                    \
    CALL(name, commands_of(call), given_or_null(call, &operands)); \
  } while (0)

static void matmul(Call *call) {
  Random *random = &call->random;
  iron_dtype type = random_chance(random, 70) ? IRON_F32 : IRON_F16;
  iron_dtype weights = random_chance(random, 50) ? type : any_dtype(call);
  uint64_t k = weights == type ? dimension(call) : blocks(call);
  ENCODE(call, iron_encode_matmul, iron_matmul, .m = dimension(call), .n = dimension(call), .k = k,
         .a = tensor(call, type), .b = tensor(call, weights), .bias = maybe_tensor(call, type), .c = tensor(call, type),
         .batch = random_chance(random, 90) ? 0 : (uint32_t)random_count(random, 4),
         .transpose_a = random_chance(random, 20), .transpose_b = weights != type || random_chance(random, 50),
         .alpha = random_chance(random, 80) ? 0 : random_float(random),
         .beta = random_chance(random, 80) ? 0 : random_float(random));
}

static void embedding(Call *call) {
  ENCODE(call, iron_encode_embedding, iron_embedding, .rows = dimension(call), .width = blocks(call),
         .vocab = dimension(call), .table = tensor(call, any_dtype(call)), .ids = tensor(call, IRON_U32),
         .out = tensor(call, IRON_F32), .scale = random_float(&call->random));
}

static void rope(Call *call) {
  Random *random = &call->random;
  ENCODE(call, iron_encode_rope, iron_rope, .tokens = dimension(call), .heads = dimension(call),
         .head_dim = dimension(call), .rotary_dim = random_chance(random, 70) ? 0 : dimension(call),
         .x = tensor(call, IRON_F32), .positions = tensor(call, IRON_U32), .factors = maybe_tensor(call, IRON_F32),
         .pairing = (iron_rope_pairing)random_constant(random, 0, 1),
         .frequency_base = random_chance(random, 70) ? 10000 : random_float(random),
         .frequency_scale = random_chance(random, 70) ? 0 : random_float(random));
}

static void attention(Call *call) {
  static const iron_dtype types[] = {IRON_F32, IRON_F16, IRON_BF16, IRON_Q8_0};
  Random *random = &call->random;
  iron_dtype cache = types[random_below(random, sizeof types / sizeof *types)];
  uint64_t kv_heads = 1 + random_below(random, 2),
           heads = random_chance(random, 90) ? kv_heads * (1 + random_below(random, 2)) : dimension(call);
  ENCODE(call, iron_encode_attention, iron_attention, .tokens = dimension(call), .heads = heads, .kv_heads = kv_heads,
         .head_dim = random_chance(random, 80) ? 32 : dimension(call),
         .first_position = random_chance(random, 70) ? 0 : dimension(call),
         .window = random_chance(random, 70) ? 0 : random_count(random, 8), .q = tensor(call, IRON_F32),
         .k = tensor(call, cache), .v = tensor(call, cache), .out = tensor(call, IRON_F32),
         .k_head_stride = random_chance(random, 90) ? 0 : random_count(random, 64),
         .v_head_stride = random_chance(random, 90) ? 0 : random_count(random, 64),
         .scale = random_chance(random, 70) ? 0 : random_float(random));
}

/* The operations of ops.def. Where operands are of several types, it is the same one. */
#define DIMENSION(name) .name = dimension(call),
#define SCALE(name) .name = random_float(&call->random),
#define STEP(name) .name = random_count(&call->random, 1000),
#define NOT_NEGATIVE(name) .name = random_float(&call->random),
#define FRACTION(name) .name = random_chance(&call->random, 80) ? 0.5f : random_float(&call->random),
#define IN(name, types, rows, width) .name = tensor(call, types),
#define REUSED(name, types, rows, width) .name = tensor(call, types),
#define OUT(name, types, rows, width) .name = tensor(call, types),
#define INOUT(name, types, rows, width) .name = tensor(call, types),
#define FORM(form, argument, values, tensors, ...)                                                \
  static iron_##form form##_of(Call *call) {                                                      \
    const iron_dtype F32 = IRON_F32, U32 = IRON_U32,                                              \
                     PLAIN = (iron_dtype)random_constant(&call->random, IRON_F32, IRON_U32);      \
    (void)F32, (void)U32, (void)PLAIN;                                                            \
    return (iron_##form){values tensors};                                                         \
  }
#define CALL_OF(name, form)                                              \
  static void call_##name(Call *call) {                                  \
    GIVEN(iron_##form) operands = {.value = form##_of(call)};            \
    given_input(call, &operands, sizeof(iron_##form));                   \
    CALL(iron_encode_##name, commands_of(call), given_or_null(call, &operands)); \
  }
#define OP(NAME, name, form, ...) CALL_OF(name, form)
#define OP_OF_TYPES(NAME, name, form) CALL_OF(name, form)
#include "../../native/kernels/ops.def"

static void copy(Call *call) {
  iron_dtype from = (iron_dtype)random_constant(&call->random, IRON_F32, IRON_BF16);
  iron_dtype to = random_chance(&call->random, 80) ? (iron_dtype)random_constant(&call->random, IRON_F32, IRON_BF16)
                                                   : any_dtype(call);
  ENCODE(call, iron_encode_copy, iron_copy, .rows = dimension(call),
         .width = random_chance(&call->random, 50) ? 32 : dimension(call), .src = tensor(call, from),
         .dst = tensor(call, to));
}

static void linear_backward(Call *call) {
  ENCODE(call, iron_encode_linear_backward, iron_linear_backward, .rows = dimension(call), .inputs = dimension(call),
         .outputs = dimension(call), .x = tensor(call, IRON_F32), .weight = tensor(call, IRON_F32),
         .gradient = tensor(call, IRON_F32), .x_gradient = maybe_tensor(call, IRON_F32),
         .weight_gradient = maybe_tensor(call, IRON_F32), .bias_gradient = maybe_tensor(call, IRON_F32));
}

static void attention_backward(Call *call) {
  Random *random = &call->random;
  uint64_t kv_heads = 1 + random_below(random, 2),
           heads = random_chance(random, 90) ? kv_heads * (1 + random_below(random, 2)) : dimension(call);
  ENCODE(call, iron_encode_attention_backward, iron_attention_backward, .tokens = dimension(call), .heads = heads,
         .kv_heads = kv_heads, .head_dim = random_chance(random, 80) ? 8 : dimension(call), .q = tensor(call, IRON_F32),
         .k = tensor(call, IRON_F32), .v = tensor(call, IRON_F32), .out = tensor(call, IRON_F32),
         .gradient = tensor(call, IRON_F32), .q_gradient = tensor(call, IRON_F32),
         .k_gradient = tensor(call, IRON_F32), .v_gradient = tensor(call, IRON_F32),
         .scale = random_chance(random, 70) ? 0 : random_float(random));
}

static uint64_t words(Call *call, uint64_t usual) {
  return random_chance(&call->random, 95) ? random_below(&call->random, usual) * 4 : random_bytes(&call->random, usual);
}

static void copy_bytes(Call *call) {
  void *commands = commands_of(call), *source = handles_any(call, BUFFER), *destination = handles_any(call, BUFFER);
  uint64_t from = words(call, 64), to = words(call, 64);
  CALL(iron_encode_copy_bytes, commands, source, from, destination, to, words(call, 256));
}

static void fill(Call *call) {
  void *commands = commands_of(call), *buffer = handles_any(call, BUFFER);
  uint64_t offset = random_chance(&call->random, 70) ? 0 : words(call, 64);
  uint64_t length =
      random_chance(&call->random, 70) ? words(call, 1024) : UINT64_C(64) << 2 * random_below(&call->random, 6);
  CALL(iron_encode_fill, commands, buffer, offset, length, (uint8_t)random_bits(&call->random));
}

static const Entry entries[] = {
    {matmul, 50}, {embedding, 15},  {rope, 10},
    {attention, 20}, {copy, 15},    {copy_bytes, 30}, {fill, 40},
    {linear_backward, 10},
    {attention_backward, 10},
#define OP(NAME, name, ...) {call_##name, 8},
#define OP_OF_TYPES(NAME, name, ...) {call_##name, 8},
#include "../../native/kernels/ops.def"
};
const Entries operation_calls = {entries, sizeof entries / sizeof *entries};
