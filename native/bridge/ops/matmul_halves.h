/* Products of many rows by the matrix units of a device of many cores: activations and weights become halves first. */
#ifndef IRON_BRIDGE_MATMUL_HALVES_H
#define IRON_BRIDGE_MATMUL_HALVES_H

#import "operation.h"

/* Records a product with the operands of the family matmul. false: it is the caller's, because it is none of these, or
 * because there is no memory for the halves. */
bool IronMatmulHalvesRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *arguments,
                            iron_status *status);

#endif
