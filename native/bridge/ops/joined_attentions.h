/* Attentions of one token each that follow each other, done by one kernel on a device of many cores: those of several
 * texts in one pass. An attention is put off until the next operation is recorded. */
#ifndef IRON_BRIDGE_JOINED_ATTENTIONS_H
#define IRON_BRIDGE_JOINED_ATTENTIONS_H

#import "operation.h"

/* Records an attention whose keys are shared out if it can be put off, or joined to what was. false: it is the
 * caller's. */
bool IronJoinedAttentionsRecord(IronCommands *commands, const IronOperand *operands, const attention_args *arguments,
                                iron_status *status);

#endif
