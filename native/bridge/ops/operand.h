/* The matrices that operations are given: where they lie, whether they fit, whether they overlap. */
#ifndef IRON_BRIDGE_OPERAND_H
#define IRON_BRIDGE_OPERAND_H

#import "device/commands.h"
#include "ironbridge.h"

/* Sets of types: a bit for each. */
typedef uint64_t IronTypes;
#define IRON_TYPES(type) (UINT64_C(1) << (type))
#define IRON_TYPES_F32 IRON_TYPES(IRON_F32)
#define IRON_TYPES_U32 IRON_TYPES(IRON_U32)
#define IRON_TYPES_F32_F16 (IRON_TYPES(IRON_F32) | IRON_TYPES(IRON_F16))
#define IRON_TYPES_CACHE (IRON_TYPES_FLOAT | IRON_TYPES(IRON_Q8_0))
#define IRON_TYPES_WEIGHTS (IRON_TYPES_FLOAT | IRON_TYPES_BLOCKS)
#define IRON_TYPES_PLAIN (IRON_TYPES_FLOAT | IRON_TYPES_U32)
/* Those of a class of dtypes.def. */
extern const IronTypes IRON_TYPES_FLOAT, IRON_TYPES_BLOCKS;

/* What an operation needs of an operand: `planes` matrices of rows × width elements. */
typedef struct IronShape {
  uint64_t rows, width;
  uint64_t planes;       /* 0: one */
  uint64_t row_stride;   /* elements; 0: the tensor's own, or else width */
  uint64_t plane_stride; /* elements, of more than one plane; 0: every plane is the same */
  bool weights;          /* it may be in a buffer of weights, if its rows lie as they were written */
} IronShape;

/* A tensor that was checked against what the operation needs. */
typedef struct IronOperand {
  const char *name;
  IronBuffer *buffer;
  iron_access access;
  iron_dtype dtype;
  uint64_t offset, length;           /* bytes; from the first element to the last one, gaps included */
  uint64_t row_stride, plane_stride; /* elements */
  uint64_t rows, width, planes;
  bool whole; /* every byte of the buffer belongs to an element */
} IronOperand;

/* Checks `tensor`, an operand of what is recorded next, and describes it. `name` is the argument's in messages. */
iron_status IronOperandResolve(IronOperand *operand, const char *name, const iron_tensor *tensor, IronShape shape,
                               IronTypes types, iron_access access, IronCommands *commands);

/* Whether two begin at the same byte, and whether a byte from the first to the last element of one is the other's. */
bool IronSamePlace(const IronOperand *one, const IronOperand *other);
bool IronOverlap(const IronOperand *one, const IronOperand *other);

/* Refuses an output whose elements are also elements of `input`, unless `in_place` and they are the very same ones. */
iron_status IronOperandsCheckOverlap(const IronOperand *output, const IronOperand *input, bool in_place);

/* Refuses a dimension that is 0 or more than the kernels can count to. */
iron_status IronDimensionCheck(const char *name, uint64_t value);

/* Checks a type, and the offset of an argument's first element. */
iron_status IronTypeCheck(const char *argument, iron_dtype type, IronTypes types, uint64_t offset);
const char *IronTypeName(iron_dtype type);
/* Bytes of at most 2^32 elements; IRON_ERROR_SHAPE when they are not whole blocks. `argument` names them. */
iron_status IronTypeBytes(iron_dtype type, uint64_t elements, const char *argument, uint64_t *bytes);

#endif
