/* Products of few rows by the matrix units of a device of many cores: k is cut into slices, whose products are summed
 * up afterwards. */
#ifndef IRON_BRIDGE_MATMUL_SLICES_H
#define IRON_BRIDGE_MATMUL_SLICES_H

#import "operation.h"

/* Records a product of the family matmul so; false: it is the caller's. */
bool IronMatmulSlicesRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *arguments,
                            iron_status *status);

#endif
