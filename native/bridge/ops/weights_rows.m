/* Rows of weights, as the host writes and reads them. */
#import "base/entry.h"
#import "base/structs.h"
#import "operand.h"

/* A description of the caller's, checked against the buffer. */
static iron_status describe(IronWeights *matrix, const iron_weights *given, IronBuffer *buffer) {
  if (!buffer->weights)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "buffer: it was not made for weights (IRON_USAGE_WEIGHTS)");
  *matrix = (IronWeights){
      .offset = given->offset, .rows = given->rows, .width = given->width, .dtype = given->dtype};
  IRON_TRY(IronDimensionCheck("matrix.rows", matrix->rows));
  IRON_TRY(IronDimensionCheck("matrix.width", matrix->width));
  IRON_TRY(IronTypeCheck("matrix", matrix->dtype, IRON_TYPES_WEIGHTS, matrix->offset));
  IRON_TRY(IronTypeBytes(matrix->dtype, matrix->width, "matrix.width", &matrix->row_bytes));
  if (matrix->offset <= buffer->length && matrix->rows <= (buffer->length - matrix->offset) / matrix->row_bytes)
    return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "matrix: %llu rows of %llu bytes from offset %llu, the buffer has %llu",
                         (unsigned long long)matrix->rows, (unsigned long long)matrix->row_bytes,
                         (unsigned long long)matrix->offset, (unsigned long long)buffer->length);
}

static iron_status check_rows(const IronWeights *matrix, uint64_t first, uint64_t count) {
  if (count == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "count: is 0");
  if (first <= matrix->rows && count <= matrix->rows - first) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "count: %llu rows from row %llu, the matrix has %llu",
                         (unsigned long long)count, (unsigned long long)first, (unsigned long long)matrix->rows);
}

/* The arguments of both functions. */
static iron_status resolve(IronBuffer **buffer, IronWeights *matrix, iron_buffer *handle, const iron_weights *given,
                           uint64_t first, uint64_t count, const void *rows) {
  iron_weights description;
  IRON_READ_STRUCT(description, given, "matrix");
  if (!rows) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "rows: is NULL");
  *buffer = IronBufferAcquire(handle, "buffer");
  if (!*buffer) return IRON_ERROR_INVALID_HANDLE;
  IRON_TRY(describe(matrix, &description, *buffer));
  return check_rows(matrix, first, count);
}

iron_status iron_weights_write(iron_buffer *handle, const iron_weights *given, uint64_t first, uint64_t count,
                               const void *rows) {
  IRON_ENTRY {
    IronBuffer *buffer;
    IronWeights matrix;
    IRON_TRY(resolve(&buffer, &matrix, handle, given, first, count, rows));
    IRON_VISIT(buffer->device, "buffer");
    return IronWeightsWrite(buffer, &matrix, first, count, rows);
  } IRON_LEAVE
}

iron_status iron_weights_read(iron_buffer *handle, const iron_weights *given, uint64_t first, uint64_t count,
                              void *rows) {
  IRON_ENTRY {
    IronBuffer *buffer;
    IronWeights matrix;
    IRON_TRY(resolve(&buffer, &matrix, handle, given, first, count, rows));
    IRON_VISIT(buffer->device, "buffer");
    return IronWeightsRead(buffer, &matrix, first, count, rows);
  } IRON_LEAVE
}
