#import "attention_pieces.h"

#import "device/device.h"
#import "kernel_table.h"

/* Keys are shared out among threadgroups for queries that are too few to keep a GPU busy, when each piece still is
 * worth one. */
enum { FEW_QUERIES = 8, PIECE = 256, MANY_KEYS = 2 * PIECE, MAX_PIECES = 64 };
/* On a device of many cores these queries are few, too, where they have no more keys: each reads all of its own. */
enum { SOME_QUERIES = 16, SOME_KEYS = 1024 };
/* There what counts is how long a threadgroup takes, so that pieces are small. But keys that are hardly more than one
 * piece are not worth a merge, and several queries make threadgroups enough by themselves. */
enum { SMALL_PIECE = 64, SINGLE_PIECE = 128, PIECE_OF_A_QUERY = 32, LONG_PIECE = 512 };
/* Numbers in the keys of all heads from which on it is reading them that takes the time, so that they are read once for
 * several heads. Below, more threadgroups are faster. */
enum { MANY_NUMBERS = 1 << 20 };

uint64_t IronAttentionKeys(uint32_t position, uint32_t window) {
  uint64_t all = (uint64_t)position + 1;
  return window && window < all ? window : all;
}

uint32_t IronAttentionHeadsAtOnce(const attention_args *args, uint64_t keys) {
  bool grouped = args->heads > args->kv_heads && keys * args->kv_heads * args->head_dim >= MANY_NUMBERS;
  return grouped ? ATTENTION_GROUPED : 1;
}

uint32_t IronAttentionBundles(const attention_args *args) {
  uint32_t of_kv_head = args->heads / args->kv_heads;
  return args->kv_heads * ((of_kv_head + args->heads_at_once - 1) / args->heads_at_once);
}

static uint64_t clamped(uint64_t value, uint64_t least, uint64_t most) {
  return value < least ? least : value > most ? most : value;
}

/* Of at most `most` pieces, none shorter than `least`. */
static uint64_t length_of(uint64_t keys, uint64_t most, uint64_t least) {
  uint64_t length = (keys + most - 1) / most;
  return length < least ? least : length;
}

uint64_t IronAttentionPieceLength(const attention_args *args, uint64_t keys, uint64_t queries, uint32_t cores) {
  if (keys <= SINGLE_PIECE) return SINGLE_PIECE;
  /* No more than can run at once, so that none waits for another one to end. */
  uint64_t at_once = (uint64_t)cores * ATTENTION_WIDE_RESIDENT(args->head_dim, args->heads_at_once);
  uint64_t most = clamped(at_once / (IronAttentionBundles(args) * queries), 1, ATTENTION_WIDE_PIECES);
  return length_of(keys, most, clamped(PIECE_OF_A_QUERY * queries, SMALL_PIECE, LONG_PIECE));
}

static void share_out(attention_args *args, uint64_t keys, uint64_t length) {
  args->split_length = (uint32_t)length;
  args->splits = (uint32_t)((keys + length - 1) / length);
}

void IronAttentionShareOut(attention_args *args, uint64_t positions, const IronOperand *operands) {
  uint64_t keys = args->window ? args->window : positions;
  bool few = args->tokens <= FEW_QUERIES, some = args->tokens <= SOME_QUERIES && keys <= SOME_KEYS;
  if ((few || some) && IronAttentionIsWide(args, operands)) {
    uint32_t cores = operands[ATTENTION_Q].buffer->device->cores;
    args->heads_at_once = IronAttentionHeadsAtOnce(args, keys * args->tokens);
    share_out(args, keys, IronAttentionPieceLength(args, keys, args->tokens, cores));
  } else if (few && keys >= MANY_KEYS) {
    share_out(args, keys, length_of(keys, MAX_PIECES, PIECE));
  }
}
