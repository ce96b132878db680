/* The encoders of the operations in ops.def. */
#include <math.h>

#import "args.h"
#import "base/entry.h"
#import "base/structs.h"
#import "fusion.h"
#import "matmul_panels.h"

enum { MAX_OPERANDS = 5 };

/* The operands of a call, in the order of their bindings, as far as they are checked. */
typedef struct Operands {
  IronCommands *commands;
  IronOperand list[MAX_OPERANDS];
  bool reusable[MAX_OPERANDS]; /* out may be this one */
  size_t count;
} Operands;

static bool is_one_type(IronTypes types) { return (types & (types - 1)) == 0; }

static iron_status add_input(Operands *operands, const char *name, const iron_tensor *tensor, IronShape shape,
                             IronTypes types, bool reusable) {
  operands->reusable[operands->count] = reusable;
  return IronOperandResolve(&operands->list[operands->count++], name, tensor, shape, types, IRON_ACCESS_READ,
                            operands->commands);
}

static iron_status add_output(Operands *operands, const char *name, const iron_tensor *tensor, IronShape shape,
                              IronTypes types, iron_access access) {
  const IronOperand *first = operands->list;
  size_t inputs = operands->count++;
  IronOperand *out = &operands->list[inputs];
  IRON_TRY(IronOperandResolve(out, name, tensor, shape, types, access, operands->commands));
  if (!is_one_type(types) && out->dtype != first->dtype)
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: is %s, %s is %s", name, IronTypeName(out->dtype), first->name,
                           IronTypeName(first->dtype));
  for (size_t index = 0; index < inputs; index++)
    IRON_TRY(IronOperandsCheckOverlap(out, &operands->list[index], operands->reusable[index]));
  return IRON_OK;
}

static iron_status check_scale(const char *name, float *scale) {
  if (!isfinite(*scale)) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is %g", name, (double)*scale);
  if (*scale == 0) *scale = 1;
  return IRON_OK;
}

static iron_status check_not_negative(const char *name, float value) {
  if (isfinite(value) && value >= 0) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is %g, it must not be less than 0", name, (double)value);
}

static iron_status check_fraction(const char *name, float value) {
  if (value >= 0 && value < 1) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is %g, it must be from 0 to below 1", name, (double)value);
}

/* What 0 stands for where it is no value of its own. */
static float or_else(float value, float otherwise) { return value == 0 ? otherwise : value; }

/* 1 - beta^step: by how much a mean that begins with 0 falls short after that number of steps. */
static double missing_part(float beta, uint32_t step) { return 1 - pow((double)beta, step); }

/* Each value and each operand is a variable of its name for what follows it in the row. */
#define DIMENSION(name)                               \
  IRON_TRY(IronDimensionCheck(#name, given.name));    \
  const uint32_t name = (uint32_t)given.name;
#define SCALE(name)                               \
  IRON_TRY(check_scale(#name, &given.name));      \
  const float name = given.name;
#define STEP(name) DIMENSION(name)
#define NOT_NEGATIVE(name)                             \
  IRON_TRY(check_not_negative(#name, given.name));     \
  const float name = given.name;
#define FRACTION(name)                             \
  IRON_TRY(check_fraction(#name, given.name));     \
  const float name = given.name;
#define OPERAND(name) const IronOperand *name __attribute__((unused)) = &operands.list[operands.count]
#define SHAPE(height, length) ((IronShape){.rows = (height), .width = (length)})
#define IN(name, types, rows, width) \
  OPERAND(name);                     \
  IRON_TRY(add_input(&operands, #name, &given.name, SHAPE(rows, width), IRON_TYPES_##types, false));
#define REUSED(name, types, rows, width) \
  OPERAND(name);                         \
  IRON_TRY(add_input(&operands, #name, &given.name, SHAPE(rows, width), IRON_TYPES_##types, true));
#define OUT(name, types, rows, width) \
  OPERAND(name);                      \
  IRON_TRY(add_output(&operands, #name, &given.name, SHAPE(rows, width), IRON_TYPES_##types, IRON_ACCESS_WRITE));
#define INOUT(name, types, rows, width) \
  OPERAND(name);                        \
  IRON_TRY(add_output(&operands, #name, &given.name, SHAPE(rows, width), IRON_TYPES_##types, IRON_ACCESS_READ_WRITE));
#define ARGUMENTS(...) {__VA_ARGS__}
#define GRID(width, height) ((IronGrid){width, height, 1})

/* One kernel does F32; those of an operation of types are found by the type. */
#define FORM(form, argument, values, tensors, fields, grid)                                              \
  static iron_status encode_##form(iron_commands *handle, const iron_##form *caller, IronOperation operation, \
                                   bool of_types) {                                                   \
    iron_##form given;                                                                                \
    IRON_READ_STRUCT(given, caller, argument);                                                        \
    IRON_RECORD(commands, handle);                                                                    \
    Operands operands = {.commands = commands};                                                       \
    values tensors                                                                                     \
    const form##_args arguments = fields;                                                             \
    iron_status status;                                                                               \
    if (IronFusionRecordRow(commands, operation, operands.list, operands.count, &arguments, &status)) return status; \
    if (IronMatmulPanelsRecordRow(commands, operation, operands.list, &arguments, &status)) return status; \
    iron_dtype type = of_types ? operands.list[0].dtype : 0;                                          \
    int kernel = IronKernelFind(operation, type, 0, &arguments, operands.list);                       \
    return IronOperationEncode(commands, kernel, operands.list, operands.count, &arguments, sizeof arguments, grid); \
  }
#define ENCODER(NAME, name, form, of_types)                                                \
  iron_status iron_encode_##name(iron_commands *commands, const iron_##form *operands) {   \
    IRON_ENTRY {                                                                           \
      return encode_##form(commands, operands, IRON_OPERATION_##NAME, of_types);           \
    } IRON_LEAVE                                                                           \
  }
#define OP(NAME, name, form, ...) ENCODER(NAME, name, form, false)
#define OP_OF_TYPES(NAME, name, form) ENCODER(NAME, name, form, true)
#include "ops.def"
