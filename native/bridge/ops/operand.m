#import "operand.h"

#import "base/entry.h"
#import "base/structs.h"

/* How elements of a type lie in memory: `bytes` for every `elements`, `alignment` for the first. */
typedef struct Layout {
  const char *name;
  uint32_t elements, bytes, alignment;
} Layout;

#define DTYPE(id, NAME, name, ggml, elements, bytes, alignment, scale) \
  [IRON_##NAME] = {#NAME, elements, bytes, alignment},
static const Layout layouts[] = {
#include "dtypes.def"
};

#define DTYPE(id, NAME, ...)                                                    \
  _Static_assert(IRON_##NAME == (id), "ironbridge.h and dtypes.def agree on " #NAME); \
  _Static_assert((id) > 0 && (id) < 64, "a set of types has a bit for " #NAME);
#include "dtypes.def"

const IronTypes IRON_TYPES_FLOAT = 0
#define DTYPE_FLOAT(id, NAME, ...) | IRON_TYPES(IRON_##NAME)
#include "dtypes.def"
    ;
const IronTypes IRON_TYPES_BLOCKS = 0
#define DTYPE_BLOCK(id, NAME, ...) | IRON_TYPES(IRON_##NAME)
#include "dtypes.def"
    ;

static const Layout *layout_of(iron_dtype type) {
  if (type >= sizeof layouts / sizeof *layouts || !layouts[type].name) return NULL;
  return &layouts[type];
}

const char *IronTypeName(iron_dtype type) { return layout_of(type) ? layout_of(type)->name : "unknown type"; }

iron_status IronTypeBytes(iron_dtype type, uint64_t elements, const char *argument, uint64_t *bytes) {
  const Layout *layout = layout_of(type);
  if (elements % layout->elements)
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: %llu is no multiple of the %u elements of a block of %s", argument,
                           (unsigned long long)elements, layout->elements, layout->name);
  *bytes = elements / layout->elements * layout->bytes;
  return IRON_OK;
}

iron_status IronDimensionCheck(const char *name, uint64_t value) {
  if (value == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is 0", name);
  if (value > UINT32_MAX)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: %llu is more than a kernel can count (%u)", name,
                           (unsigned long long)value, UINT32_MAX);
  return IRON_OK;
}

iron_status IronTypeCheck(const char *argument, iron_dtype type, IronTypes types, uint64_t offset) {
  const Layout *layout = layout_of(type);
  if (!layout) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: dtype %u is none", argument, type);
  if (!(types & IRON_TYPES(type)))
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: %s is not a type that this operation takes here", argument,
                           layout->name);
  if (offset % layout->alignment)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: offset %llu is not a multiple of %u", argument,
                           (unsigned long long)offset, layout->alignment);
  return IRON_OK;
}

static iron_status check_type(const IronOperand *operand, IronTypes types) {
  IRON_TRY(IronTypeCheck(operand->name, operand->dtype, types, operand->offset));
  const Layout *layout = layout_of(operand->dtype);
  if (operand->width % layout->elements || operand->row_stride % layout->elements ||
      operand->plane_stride % layout->elements)
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: rows and strides of %s are multiples of %u elements", operand->name,
                           layout->name, layout->elements);
  return IRON_OK;
}

/* bytes = ((planes - 1) plane_stride + (rows - 1) row_stride + width) elements. False when that overflows. */
static bool span(const IronOperand *operand, uint64_t *bytes) {
  const Layout *layout = layout_of(operand->dtype);
  uint64_t planes, rows, elements;
  return !__builtin_mul_overflow(operand->planes - 1, operand->plane_stride, &planes) &&
         !__builtin_mul_overflow(operand->rows - 1, operand->row_stride, &rows) &&
         !__builtin_add_overflow(planes, rows, &elements) &&
         !__builtin_add_overflow(elements, operand->width, &elements) &&
         !__builtin_mul_overflow(elements / layout->elements, layout->bytes, bytes);
}

static iron_status check_extent(IronOperand *operand) {
  uint64_t end;
  if (!span(operand, &operand->length) || __builtin_add_overflow(operand->offset, operand->length, &end))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its size overflows 64 bits", operand->name);
  if (end <= operand->buffer->length) return IRON_OK;
  return IronErrorReport(
      IRON_ERROR_OUT_OF_RANGE, "%s: %llu rows of %llu %s from offset %llu need %llu bytes, the buffer has %llu",
      operand->name, (unsigned long long)(operand->rows * operand->planes), (unsigned long long)operand->width,
      IronTypeName(operand->dtype), (unsigned long long)operand->offset, (unsigned long long)operand->length,
      (unsigned long long)operand->buffer->length);
}

/* An output's rows may not overlap each other, nor its planes: these lie one after another or are interleaved row by
 * row. */
static iron_status check_output(const IronOperand *operand) {
  if (operand->rows > 1 && operand->row_stride < operand->width)
    return IronErrorReport(IRON_ERROR_SHAPE,
                           "%s: row_stride %llu is less than a row of %llu, rows would overwrite each other",
                           operand->name, (unsigned long long)operand->row_stride, (unsigned long long)operand->width);
  if (operand->planes == 1) return IRON_OK;
  if (operand->plane_stride == 0)
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: batch_stride is needed, batches would overwrite each other",
                           operand->name);
  uint64_t plane = (operand->rows - 1) * operand->row_stride + operand->width; /* fits: check_extent */
  uint64_t interleaved = (operand->planes - 1) * operand->plane_stride + operand->width;
  if (operand->plane_stride >= plane) return IRON_OK;
  if (operand->plane_stride >= operand->width && (operand->rows == 1 || operand->row_stride >= interleaved))
    return IRON_OK;
  return IronErrorReport(IRON_ERROR_SHAPE, "%s: with batch_stride %llu batches would overwrite each other",
                         operand->name, (unsigned long long)operand->plane_stride);
}

/* Whether the operand's elements are all of its buffer. */
static bool is_whole(const IronOperand *operand) {
  const Layout *layout = layout_of(operand->dtype);
  uint64_t elements = operand->rows * operand->width * operand->planes;
  return operand->offset == 0 && operand->length == operand->buffer->length &&
         elements / layout->elements * layout->bytes == operand->length;
}

/* An operand in a buffer of weights. */
static iron_status check_weights(const IronOperand *operand, bool allowed) {
  if (!allowed) return IronWeightsRefuse(operand->buffer, operand->name);
  const uint64_t plane = operand->rows * operand->width;
  const bool repeats = operand->planes == 1 || operand->plane_stride == 0;
  if ((operand->rows > 1 && operand->row_stride != operand->width) || (!repeats && operand->plane_stride != plane))
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: weights have no gaps, row_stride is %llu and batch_stride %llu",
                           operand->name, (unsigned long long)operand->row_stride,
                           (unsigned long long)operand->plane_stride);
  if (!repeats && operand->rows % IRON_WEIGHT_ROWS)
    return IronErrorReport(IRON_ERROR_SHAPE, "%s: batches of weights are multiples of %u rows, not %llu",
                           operand->name, IRON_WEIGHT_ROWS, (unsigned long long)operand->rows);
  return IronWeightsCheckUse(operand->buffer, operand->name, operand->dtype, operand->offset,
                             repeats ? operand->rows : operand->rows * operand->planes, operand->width);
}

iron_status IronOperandResolve(IronOperand *operand, const char *name, const iron_tensor *tensor, IronShape shape,
                               IronTypes types, iron_access access, IronCommands *commands) {
  uint64_t row_stride = shape.row_stride ? shape.row_stride : tensor->row_stride ? tensor->row_stride : shape.width;
  *operand = (IronOperand){.name = name,
                           .buffer = IronCommandsAcquire(commands, tensor->buffer, name),
                           .access = access,
                           .dtype = tensor->dtype,
                           .offset = tensor->offset,
                           .row_stride = row_stride,
                           .plane_stride = shape.plane_stride,
                           .rows = shape.rows,
                           .width = shape.width,
                           .planes = shape.planes ? shape.planes : 1};
  if (!operand->buffer) return IRON_ERROR_INVALID_HANDLE;
  IRON_CHECK_RESERVED(name, *tensor);
  if (operand->buffer->device != commands->device)
    return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "%s: a buffer of another device", name);
  if ((access & IRON_ACCESS_WRITE) && operand->buffer->read_only)
    return IronErrorReport(IRON_ERROR_READ_ONLY, "%s: the buffer was made read_only", name);
  iron_status status = check_type(operand, types);
  if (status == IRON_OK) status = check_extent(operand);
  if (status == IRON_OK && operand->buffer->weights) status = check_weights(operand, shape.weights);
  if (status == IRON_OK && (access & IRON_ACCESS_WRITE)) status = check_output(operand);
  operand->whole = status == IRON_OK && is_whole(operand);
  return status;
}

/* Matrices that share rows without sharing an element: columns side by side in one wide matrix. */
static bool side_by_side(const IronOperand *left, const IronOperand *right) {
  const Layout *left_layout = layout_of(left->dtype), *right_layout = layout_of(right->dtype);
  uint64_t stride = left->row_stride / left_layout->elements * left_layout->bytes;
  if (left->planes > 1 || right->planes > 1 ||
      stride != right->row_stride / right_layout->elements * right_layout->bytes)
    return false;
  uint64_t left_width = left->width / left_layout->elements * left_layout->bytes;
  uint64_t right_width = right->width / right_layout->elements * right_layout->bytes;
  uint64_t apart = (right->offset % stride + stride - left->offset % stride) % stride;
  return apart >= left_width && apart + right_width <= stride;
}

static bool same_elements(const IronOperand *left, const IronOperand *right) {
  return left->offset == right->offset && left->length == right->length && left->rows == right->rows &&
         left->width == right->width && (left->rows == 1 || left->row_stride == right->row_stride) &&
         left->dtype == right->dtype;
}

bool IronSamePlace(const IronOperand *one, const IronOperand *other) {
  return one->buffer == other->buffer && one->offset == other->offset;
}

bool IronOverlap(const IronOperand *one, const IronOperand *other) {
  return one->buffer == other->buffer && one->offset < other->offset + other->length &&
         other->offset < one->offset + one->length;
}

iron_status IronOperandsCheckOverlap(const IronOperand *output, const IronOperand *input, bool in_place) {
  if (!IronOverlap(output, input) || side_by_side(output, input)) return IRON_OK;
  if (in_place && same_elements(output, input)) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: overlaps %s", output->name, input->name);
}
