/* What a buffer of weights holds: matrices that are written row by row and then only read. How they lie in memory is
 * the device's business; here they have the offsets of the plain layout. */
#ifndef IRON_BRIDGE_WEIGHTS_H
#define IRON_BRIDGE_WEIGHTS_H

#include <stdbool.h>

#include "ironbridge.h"

@class IronBuffer;

/* A matrix, and how far it is written. */
typedef struct IronWeights {
  uint64_t offset, rows, width; /* bytes; elements */
  iron_dtype dtype;
  uint64_t row_bytes;
  uint64_t written; /* rows */
  bool writing;     /* by a thread, right now */
} IronWeights;

/* The matrices of a buffer by their offsets. Guarded by the device's monitor. */
typedef struct IronWeightsTable {
  IronWeights *matrices;
  size_t count, capacity;
} IronWeightsTable;

/* Refuses a buffer of weights where there must be another. `argument` names it. */
iron_status IronWeightsRefuse(IronBuffer *buffer, const char *argument);

/* Checks that commands can use `rows` rows from byte `offset` of a buffer of weights. */
iron_status IronWeightsCheckUse(IronBuffer *buffer, const char *argument, iron_dtype dtype, uint64_t offset,
                                uint64_t rows, uint64_t width);

/* Copies `count` rows from row `first` on between `rows` and a buffer of weights. Of the matrix `written` and `writing`
 * are not looked at. */
iron_status IronWeightsWrite(IronBuffer *buffer, const IronWeights *matrix, uint64_t first, uint64_t count,
                             const void *rows);
iron_status IronWeightsRead(IronBuffer *buffer, const IronWeights *matrix, uint64_t first, uint64_t count, void *rows);

#endif
