#include "weights.h"

#include <stdlib.h>
#include <string.h>

#import "base/entry.h"
#import "base/text.h"
#import "buffer.h"

typedef unsigned long long ull;

_Static_assert(IRON_WEIGHT_ROWS == 32, "the messages name it");

static uint64_t bytes_of(const IronWeights *matrix) { return matrix->rows * matrix->row_bytes; }

static bool same(const IronWeights *left, const IronWeights *right) {
  return left->offset == right->offset && left->rows == right->rows && left->width == right->width &&
         left->dtype == right->dtype;
}

/* How many matrices of the table begin at `offset` or before. Monitor held. */
static size_t count_up_to(const IronWeightsTable *table, uint64_t offset) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (table->matrices[middle].offset <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* For messages. */
typedef struct Label {
  char text[64];
} Label;

static Label label_of(IronBuffer *buffer) {
  Label label;
  IronMonitorLock(&buffer->device->monitor);
  IronTextCopy(label.text, sizeof label.text, buffer->label ? buffer->label : "");
  IronMonitorUnlock(&buffer->device->monitor);
  return label;
}

iron_status IronWeightsRefuse(IronBuffer *buffer, const char *argument) {
  if (!buffer->weights) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                         "%s: buffer '%s' holds weights, which are only b of a matmul and table of an embedding",
                         argument, label_of(buffer).text);
}

#pragma mark Use

/* What is wrong with a use; IRON_OK: nothing. */
typedef struct Verdict {
  iron_status status;
  const char *text;
} Verdict;

/* Whether the use begins or ends there in its matrix. */
static bool is_edge(const IronWeights *matrix, uint64_t row) {
  return row % IRON_WEIGHT_ROWS == 0 || row == matrix->rows;
}

/* Monitor held. */
static Verdict judge(const IronWeightsTable *table, iron_dtype dtype, uint64_t offset, uint64_t rows, uint64_t width) {
  const size_t after = count_up_to(table, offset);
  const IronWeights *matrix = after > 0 ? &table->matrices[after - 1] : NULL;
  if (!matrix || offset - matrix->offset >= bytes_of(matrix))
    return (Verdict){IRON_ERROR_STATE, "there are no weights at this offset"};
  uint64_t first = (offset - matrix->offset) / matrix->row_bytes;
  if ((offset - matrix->offset) % matrix->row_bytes || first % IRON_WEIGHT_ROWS)
    return (Verdict){IRON_ERROR_SHAPE, "a use begins at a multiple of 32 rows of a matrix"};
  for (const IronWeights *end = table->matrices + table->count;;) {
    if (matrix->dtype != dtype || matrix->width != width)
      return (Verdict){IRON_ERROR_SHAPE, "the weights there have another type or width"};
    if (matrix->written < matrix->rows)
      return (Verdict){IRON_ERROR_STATE, "the weights there are not all written"};
    if (rows <= matrix->rows - first) break;
    rows -= matrix->rows - first;
    const IronWeights *next = matrix + 1;
    if (next == end || next->offset != matrix->offset + bytes_of(matrix))
      return (Verdict){IRON_ERROR_SHAPE, "the weights there have fewer rows"};
    if (matrix->rows % IRON_WEIGHT_ROWS)
      return (Verdict){IRON_ERROR_SHAPE, "a use goes on after a multiple of 32 rows of a matrix"};
    matrix = next;
    first = 0;
  }
  if (!is_edge(matrix, first + rows))
    return (Verdict){IRON_ERROR_SHAPE, "a use ends with a matrix or at a multiple of 32 rows"};
  return (Verdict){IRON_OK, NULL};
}

iron_status IronWeightsCheckUse(IronBuffer *buffer, const char *argument, iron_dtype dtype, uint64_t offset,
                                uint64_t rows, uint64_t width) {
  IronMonitorLock(&buffer->device->monitor);
  Verdict verdict = judge(buffer->weights, dtype, offset, rows, width);
  IronMonitorUnlock(&buffer->device->monitor);
  if (verdict.status == IRON_OK) return IRON_OK;
  return IronErrorReport(verdict.status, "%s: buffer '%s': %s", argument, label_of(buffer).text, verdict.text);
}

#pragma mark Writing

/* The matrix of the table that is `matrix`; NULL: there is none. Monitor held. */
static IronWeights *find(IronWeightsTable *table, const IronWeights *matrix) {
  size_t after = count_up_to(table, matrix->offset);
  return after > 0 && same(&table->matrices[after - 1], matrix) ? &table->matrices[after - 1] : NULL;
}

/* Adds a matrix. Monitor held. */
static iron_status add(IronWeightsTable *table, const IronWeights *matrix, IronWeights **added) {
  size_t index = count_up_to(table, matrix->offset);
  const IronWeights *before = index > 0 ? &table->matrices[index - 1] : NULL;
  const IronWeights *after = index < table->count ? &table->matrices[index] : NULL;
  if ((before && matrix->offset - before->offset < bytes_of(before)) ||
      (after && after->offset - matrix->offset < bytes_of(matrix)))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "matrix: overlaps another one of the buffer");
  if (table->count == table->capacity) {
    size_t capacity = 2 * table->capacity + 4;
    IronWeights *larger = realloc(table->matrices, capacity * sizeof *larger);
    if (!larger) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "matrix: no memory to note it");
    table->matrices = larger;
    table->capacity = capacity;
  }
  IronWeights *place = &table->matrices[index];
  memmove(place + 1, place, (table->count - index) * sizeof *place);
  *place = *matrix;
  place->written = 0;
  place->writing = false;
  table->count += 1;
  *added = place;
  return IRON_OK;
}

/* Monitor held. */
static iron_status begin_write(IronWeightsTable *table, const IronWeights *given, uint64_t first, uint64_t count) {
  IronWeights *matrix = find(table, given);
  uint64_t written = matrix ? matrix->written : 0;
  if (matrix && matrix->writing) return IronErrorReport(IRON_ERROR_BUSY, "matrix: another thread writes rows of it");
  if (written == given->rows)
    return IronErrorReport(IRON_ERROR_STATE, "matrix: all its rows are written, and weights never change after that");
  if (first != written)
    return IronErrorReport(IRON_ERROR_STATE, "first: is %llu, and %llu rows are written: they come in their order",
                           (ull)first, (ull)written);
  if (count % IRON_WEIGHT_ROWS && first + count < given->rows)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "count: %llu rows do not end the matrix of %llu, and are no multiple of %u", (ull)count,
                           (ull)given->rows, IRON_WEIGHT_ROWS);
  if (!matrix) IRON_TRY(add(table, given, &matrix));
  matrix->writing = true;
  return IRON_OK;
}

/* A write under way. It ends with the function, on every way out of it. */
typedef struct Write {
  IronBuffer *buffer; /* nil: not begun */
  const IronWeights *matrix;
  uint64_t count; /* of rows that are written */
} Write;

static void end_write(Write *write) {
  if (!write->buffer) return;
  IronMonitorLock(&write->buffer->device->monitor);
  IronWeightsTable *table = write->buffer->weights;
  IronWeights *matrix = find(table, write->matrix);
  matrix->writing = false;
  matrix->written += write->count;
  if (matrix->written == 0) { /* another matrix may be written there */
    table->count -= 1;
    memmove(matrix, matrix + 1, (size_t)(table->matrices + table->count - matrix) * sizeof *matrix);
  }
  IronMonitorUnlock(&write->buffer->device->monitor);
}

static iron_status failed(iron_status status, char *text) {
  if (status != IRON_OK) IronErrorReport(status, "rows: %s", text ? text : "the device did not copy them");
  free(text);
  return status;
}

iron_status IronWeightsWrite(IronBuffer *buffer, const IronWeights *matrix, uint64_t first, uint64_t count,
                             const void *rows) {
  IronDevice *device = buffer->device;
  __attribute__((cleanup(end_write))) Write write = {.matrix = matrix};
  IronMonitorLock(&device->monitor);
  iron_status status = begin_write(buffer->weights, matrix, first, count);
  if (status == IRON_OK) write.buffer = buffer;
  IronMonitorUnlock(&device->monitor);
  if (status != IRON_OK) return status;
  soft_schedule_point();
  char *text = NULL;
  if (device->extras->write_weights)
    status = failed(device->extras->write_weights(buffer->metal, matrix, first, count, rows, &text), text);
  else
    status = IronBufferCopyIn(buffer, matrix->offset + first * matrix->row_bytes, rows, count * matrix->row_bytes);
  if (status == IRON_OK) write.count = count;
  return status;
}

iron_status IronWeightsRead(IronBuffer *buffer, const IronWeights *given, uint64_t first, uint64_t count, void *rows) {
  IronDevice *device = buffer->device;
  IronMonitorLock(&device->monitor);
  const IronWeights *matrix = find(buffer->weights, given);
  uint64_t written = matrix ? matrix->written : 0;
  IronMonitorUnlock(&device->monitor);
  if (first + count > written)
    return IronErrorReport(IRON_ERROR_STATE, "count: %llu rows from row %llu, and %llu are written", (ull)count,
                           (ull)first, (ull)written);
  char *text = NULL;
  if (device->extras->read_weights)
    return failed(device->extras->read_weights(buffer->metal, given, first, count, rows, &text), text);
  return IronBufferCopyOut(buffer, given->offset + first * given->row_bytes, rows, count * given->row_bytes);
}
