/* One operation of the header, checked and ready to be encoded: a kernel of the table, its operands and its argument
 * struct. */
#ifndef IRON_BRIDGE_OPERATION_H
#define IRON_BRIDGE_OPERATION_H

#include "base/location.h"
#import "device/commands.h"
#include "kernel_table.h"
#import "operand.h"

/* The points that a kernel is dispatched over; its geometry in the table says how threads share them out. */
typedef struct IronGrid {
  uint64_t width, height, depth;
} IronGrid;

/* One dispatch of kernel `kernel` of the table. Operand i is bound to buffer i, the argument struct comes after the
 * last one, as native/kernels/args.h has it for every family. */
typedef struct IronPass {
  int kernel;
  const IronOperand *operands;
  size_t operand_count;
  const void *arguments;
  size_t arguments_size;
  IronGrid grid;
  uint32_t threadgroup_memory; /* bytes, at index 0; 0: none */
} IronPass;

/* A pass and its pipeline state. */
typedef struct IronKernelPass {
  IronPass pass;
  id<MTLComputePipelineState> state; /* the device's */
} IronKernelPass;

/* Finds the state, when the device runs the kernel's threadgroups. */
iron_status IronPassPrepare(IronKernelPass *pass, IronDevice *device);
void IronPassEncode(const IronKernelPass *pass, id<MTLComputeCommandEncoder> encoder);

/* -[IronCommands prepareToPutOff:count:joining:] for an operation with these operands, and their bytes. */
iron_status IronOperationPrepareToPutOff(IronCommands *commands, const IronOperand *operands, size_t count, bool joins,
                                         uint64_t *bytes);
/* Behind that: what the commands keep is put off until `encode` is called, and listeners are told of the operation. */
void IronOperationPutOff(IronCommands *commands, IronPutOff encode, uint64_t bytes, IronLocation location,
                         const IronOperand *operands, size_t count);

/* Records an operation of several passes, each of which sees what the ones before it wrote. All of it or nothing. */
iron_status IronOperationEncodePasses(IronCommands *commands, const IronPass *passes, size_t count);

/* Records an operation of one pass. */
iron_status IronOperationEncode(IronCommands *commands, int kernel, const IronOperand *operands, size_t operand_count,
                                const void *arguments, size_t arguments_size, IronGrid grid);

#endif
