/* Products of a few rows of activations that may be rounded to bytes, by matrices of bytes. */
#ifndef IRON_BRIDGE_MATMUL_PANELS_H
#define IRON_BRIDGE_MATMUL_PANELS_H

#import "operation.h"

/* Records a product of the family matmul so; false: it is the caller's. */
bool IronMatmulPanelsRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *arguments,
                            iron_status *status);

#endif
