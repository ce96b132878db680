/* The sizes of an attention. */
#ifndef IRON_BRIDGE_HEADS_H
#define IRON_BRIDGE_HEADS_H

#include "ironbridge.h"

/* Refuses sizes that are none, heads that kv_heads does not divide, and those that kernels cannot keep in registers. */
iron_status IronHeadsCheck(uint64_t tokens, uint64_t heads, uint64_t kv_heads, uint64_t head_dim);

#endif
