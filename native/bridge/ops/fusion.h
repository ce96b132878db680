/* Operations of one row that follow each other in a model, done by one kernel: on a GPU what a kernel costs is mostly
 * its start and its end. A norm, a product of a row, or a rotation is put off until the next operation is recorded.
 * Both are one when that is the product of the norm's row, what a model does to a product's row, another product of
 * the same row, or a copy of what was rotated. Every operand is written as it would have been. */
#ifndef IRON_BRIDGE_FUSION_H
#define IRON_BRIDGE_FUSION_H

#import "operation.h"

/* Records a row's operation of ops.def if it can be put off, or joined to what was. false: it is the caller's. */
bool IronFusionRecordRow(IronCommands *commands, IronOperation operation, const IronOperand *operands, size_t count,
                         const void *arguments, iron_status *status);

/* The same of a product; `kernel` is one of IRON_OPERATION_MATMUL_FUSED or
 * ..._BYTES, `operands` are those of the family matmul. */
iron_status IronFusionRecordProduct(IronCommands *commands, int kernel, const IronOperand *operands,
                                    const matmul_args *arguments);

/* The same of a rotation and of a copy; false: they are the caller's. */
bool IronFusionRecordRope(IronCommands *commands, const IronOperand *operands, const rope_args *arguments,
                          uint64_t head_dim, iron_status *status);
bool IronFusionRecordCopy(IronCommands *commands, const IronOperand *operands, const copy_args *arguments,
                          iron_status *status);

#endif
