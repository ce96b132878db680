/* Products of a few rows of activations that may be rounded to bytes, by matrices of bytes. A product is put off until
 * the next operation is recorded: a second one of the same activations with the weights behind the first one's, the
 * gate of both, or a sum with the product are done by the same kernel. Every operand is written as it would have
 * been. */
#ifndef IRON_BRIDGE_MATMUL_PANELS_H
#define IRON_BRIDGE_MATMUL_PANELS_H

#import "operation.h"

/* Records a product of the family matmul so; false: it is the caller's. */
bool IronMatmulPanelsRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *arguments,
                            iron_status *status);

/* Records an operation of ops.def that joins such a product; false: it is the caller's. */
bool IronMatmulPanelsRecordRow(IronCommands *commands, IronOperation operation, const IronOperand *operands,
                               const void *arguments, iron_status *status);

#endif
