/* One operation of the header, checked and ready to be encoded: a kernel of the table, its operands and its argument
 * struct. */
#ifndef IRON_BRIDGE_OPERATION_H
#define IRON_BRIDGE_OPERATION_H

#import "commands.h"
#include "kernel_table.h"
#import "operand.h"

/* The threads that a kernel runs on; each native/kernels/NAME.metal says which it expects. */
typedef enum IronGridKind {
  IRON_GRID_THREADS, /* one thread per point */
  IRON_GRID_GROUPS   /* one SIMD-group of 32 threads per point */
} IronGridKind;

typedef struct IronGrid {
  IronGridKind kind;
  uint64_t width, height, depth; /* 0: 1 */
} IronGrid;

/* Records kernel `kernel` of the table. Operand i is bound to buffer i, the argument struct comes after the last one,
 * as native/kernels/args.h has it for every family. */
iron_status IronOperationEncode(IronCommands *commands, int kernel, const IronOperand *operands, size_t operand_count,
                                const void *arguments, size_t arguments_size, IronGrid grid);

#endif
