/* How an attention of few queries shares its keys out among threadgroups. */
#ifndef IRON_OPS_ATTENTION_PIECES_H
#define IRON_OPS_ATTENTION_PIECES_H

#include <stdint.h>

#include "args.h"
#import "operand.h"

/* Sets splits, split_length and heads_at_once: 0 each where no kernel shares the keys out. */
void IronAttentionShareOut(attention_args *arguments, uint64_t positions, const IronOperand *operands);

/* The keys that a text's only query sees. */
uint64_t IronAttentionKeys(uint32_t position, uint32_t window);

/* How many heads a threadgroup takes at once of queries that see `keys` keys, all of them together. */
uint32_t IronAttentionHeadsAtOnce(const attention_args *arguments, uint64_t keys);

/* Bundles of heads that threadgroups take at once, of a query. */
uint32_t IronAttentionBundles(const attention_args *arguments);

/* The length of the pieces of one of `queries` queries, which sees `keys` keys. Reads heads_at_once and heads. */
uint64_t IronAttentionPieceLength(const attention_args *arguments, uint64_t keys, uint64_t queries, uint32_t cores);

#endif
