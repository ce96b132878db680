#import "heads.h"

#import "base/entry.h"
#import "operand.h"

enum { MAX_HEAD_DIM = 256 }; /* what a kernel keeps of a head in registers */

iron_status IronHeadsCheck(uint64_t tokens, uint64_t heads, uint64_t kv_heads, uint64_t head_dim) {
  IRON_TRY(IronDimensionCheck("tokens", tokens));
  IRON_TRY(IronDimensionCheck("heads", heads));
  IRON_TRY(IronDimensionCheck("kv_heads", kv_heads));
  IRON_TRY(IronDimensionCheck("head_dim", head_dim));
  if (head_dim > MAX_HEAD_DIM)
    return IronErrorReport(IRON_ERROR_SHAPE, "head_dim: %llu is more than %d", (unsigned long long)head_dim,
                           MAX_HEAD_DIM);
  if (heads % kv_heads)
    return IronErrorReport(IRON_ERROR_SHAPE, "heads: %llu is not a multiple of kv_heads, %llu",
                           (unsigned long long)heads, (unsigned long long)kv_heads);
  return IRON_OK;
}
