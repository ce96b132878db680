/* Copies of one row each that follow each other, done by one kernel on a device of many cores: those of keys and values
 * to the caches of several texts. A copy is put off until the next operation is recorded. */
#ifndef IRON_BRIDGE_JOINED_COPIES_H
#define IRON_BRIDGE_JOINED_COPIES_H

#import "operation.h"

/* Records a copy if it can be put off, or joined to what was. false: it is the caller's. */
bool IronJoinedCopiesRecord(IronCommands *commands, const IronOperand *operands, const copy_args *arguments,
                            iron_status *status);

#endif
