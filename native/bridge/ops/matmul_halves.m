#import "matmul_halves.h"

enum { MAX_PIECES = 8, ROW_UNIT = HALVES_DEPTH, ALIGNMENT = 256 };
/* Weights become halves in pieces. One has TILES_OF_A_CORE tiles for each core, if its halves are not longer than this,
 * or as many as make MAX_PIECES of all. */
static const uint64_t PIECE_BYTES = UINT64_C(256) << 20;
enum { TILES_OF_A_CORE = 2 };

/* Where the halves and the scales of some rows are in the scratch memory. */
typedef struct Halves {
  IronOperand values, scales;
  halves_args arguments;
} Halves;

static uint64_t aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
static uint64_t values_bytes(uint64_t rows, uint64_t padded) { return aligned(rows * padded * 2); }
static uint64_t halves_bytes(uint64_t rows, uint64_t padded) {
  return values_bytes(rows, padded) + aligned(rows * sizeof(float));
}

static Halves halves_at(IronBuffer *scratch, uint64_t offset, uint64_t rows, const matmul_args *args, uint32_t padded,
                        uint64_t row_stride) {
  IronOperand operand = {.name = "scratch", .buffer = scratch, .access = IRON_ACCESS_WRITE};
  Halves halves = {.values = operand, .scales = operand};
  halves.values.offset = offset;
  halves.values.length = rows * padded * 2;
  halves.values.row_stride = padded;
  halves.scales.offset = offset + values_bytes(rows, padded);
  halves.scales.length = rows * sizeof(float);
  halves.arguments =
      (halves_args){.row_stride = row_stride, .rows = (uint32_t)rows, .width = args->k, .padded = padded};
  return halves;
}

static uint64_t tiles(uint64_t points) { return (points + HALVES_TILE - 1) / HALVES_TILE; }

/* How many rows of b a piece has: all, or whole tiles. */
static uint64_t piece_rows(const matmul_args *args, uint32_t padded, uint32_t cores) {
  uint64_t most = PIECE_BYTES / (UINT64_C(2) * padded * HALVES_TILE);
  uint64_t wanted = (TILES_OF_A_CORE * (uint64_t)cores + tiles(args->m) - 1) / tiles(args->m);
  if (wanted > most) wanted = most;
  uint64_t needed = (tiles(args->n) + MAX_PIECES - 1) / MAX_PIECES;
  uint64_t rows = (wanted > needed ? wanted : needed) * HALVES_TILE;
  return rows < args->n ? rows : args->n;
}

/* Weights that are halves already, at places that vectors of 16 bytes begin at. */
static bool are_halves(const IronOperand *b, const matmul_args *args) {
  return b->dtype == IRON_F16 && args->k % ROW_UNIT == 0 && args->b_row_stride % 8 == 0 && b->offset % 16 == 0;
}

static IronOperand read_only(IronOperand operand) {
  operand.access = IRON_ACCESS_READ;
  return operand;
}

/* A stand-in for an operand that is not read (args.h). */
static IronOperand unread(IronOperand operand) {
  operand.access = 0;
  return operand;
}

/* The operand from `bytes` bytes behind its first element on. */
static IronOperand behind(IronOperand operand, uint64_t bytes) {
  operand.offset += bytes;
  operand.length -= bytes;
  return operand;
}

static IronPass pass_to_halves(const IronOperand *operands, const halves_args *arguments) {
  int kernel = IronKernelFind(IRON_OPERATION_HALVES, operands[HALVES_X].dtype, 0, arguments, operands);
  return (IronPass){kernel, operands, HALVES_ARGS, arguments, sizeof *arguments, {arguments->rows, 1, 1}, 0};
}

/* What the pieces of a product have in common. */
typedef struct Plan {
  const IronOperand *operands; /* matmul's */
  const matmul_args *args;
  Halves left;
  bool as_they_are;      /* b's rows are halves already */
  uint64_t right_offset; /* in the scratch memory, of those that become halves */
  uint64_t row_bytes;    /* from row to row of b */
  int product;           /* the kernel */
} Plan;

/* Some rows of b, which are columns of c: what their passes refer to. */
typedef struct Piece {
  Halves right;
  IronOperand to_halves[HALVES_ARGS], product[MATMUL_HALVES_ARGS];
  matmul_halves_args arguments;
} Piece;

/* Adds the passes of `rows` rows of b from `first` on, and returns how many they are. */
static size_t add_piece(const Plan *plan, uint64_t first, uint64_t rows, Piece *piece, IronPass *passes) {
  const matmul_args *args = plan->args;
  uint32_t padded = plan->left.arguments.padded;
  IronOperand weights = behind(plan->operands[MATMUL_B], first * plan->row_bytes);
  IronOperand out = behind(plan->operands[MATMUL_C], first * sizeof(float));
  IronOperand bias = args->has_bias ? behind(plan->operands[MATMUL_BIAS], first * sizeof(float)) : unread(out);
  IronOperand *all = piece->product;
  all[MATMUL_HALVES_A] = read_only(plan->left.values);
  all[MATMUL_HALVES_A_SCALES] = read_only(plan->left.scales);
  all[MATMUL_HALVES_B] = weights;
  all[MATMUL_HALVES_B_SCALES] = unread(out);
  all[MATMUL_HALVES_BIAS] = bias;
  all[MATMUL_HALVES_C] = out;
  size_t count = 0;
  if (!plan->as_they_are) {
    piece->right = halves_at(plan->left.values.buffer, plan->right_offset, rows, args, padded, args->b_row_stride);
    piece->to_halves[HALVES_X] = weights;
    piece->to_halves[HALVES_OUT] = piece->right.values;
    piece->to_halves[HALVES_SCALES] = piece->right.scales;
    passes[count++] = pass_to_halves(piece->to_halves, &piece->right.arguments);
    all[MATMUL_HALVES_B] = read_only(piece->right.values);
    all[MATMUL_HALVES_B_SCALES] = read_only(piece->right.scales);
  }
  piece->arguments = (matmul_halves_args){.a_row_stride = padded,
                                          .b_row_stride = plan->as_they_are ? args->b_row_stride : padded,
                                          .c_row_stride = args->c_row_stride,
                                          .m = args->m,
                                          .n = (uint32_t)rows,
                                          .k = padded,
                                          .has_bias = args->has_bias,
                                          .has_b_scales = !plan->as_they_are,
                                          .in_pairs = out.offset % 8 == 0 && args->c_row_stride % 2 == 0};
  passes[count++] = (IronPass){plan->product, all, MATMUL_HALVES_ARGS, &piece->arguments, sizeof piece->arguments,
                               {args->m, rows, 1}, IronHalvesMemory(plan->product)};
  return count;
}

bool IronMatmulHalvesRecord(IronCommands *commands, const IronOperand *operands, const matmul_args *args,
                            iron_status *status) {
  const IronOperand *a = &operands[MATMUL_A], *b = &operands[MATMUL_B];
  if (!IronMatmulIsOfHalves(args, operands)) return false;
  Plan plan = {.operands = operands, .args = args, .as_they_are = are_halves(b, args)};
  plan.product = IronKernelFind(IRON_OPERATION_MATMUL_HALVES, 0, 0, args, operands);
  if (plan.product < 0 || IronTypeBytes(b->dtype, args->b_row_stride, "b", &plan.row_bytes) != IRON_OK) return false;

  uint32_t padded = (args->k + ROW_UNIT - 1) / ROW_UNIT * ROW_UNIT;
  uint64_t most = plan.as_they_are ? args->n : piece_rows(args, padded, commands->device->cores);
  plan.right_offset = halves_bytes(args->m, padded);
  IronBuffer *scratch =
      [commands scratchOfLength:plan.right_offset + (plan.as_they_are ? 0 : halves_bytes(most, padded))];
  if (!scratch) return false;

  plan.left = halves_at(scratch, 0, args->m, args, padded, args->a_row_stride);
  const IronOperand to_halves[] = {
      [HALVES_X] = *a, [HALVES_OUT] = plan.left.values, [HALVES_SCALES] = plan.left.scales};
  IronPass passes[1 + 2 * MAX_PIECES] = {pass_to_halves(to_halves, &plan.left.arguments)};
  Piece pieces[MAX_PIECES];
  size_t count = 1, index = 0;
  for (uint64_t first = 0; first < args->n; first += most) {
    uint64_t rows = args->n - first < most ? args->n - first : most;
    count += add_piece(&plan, first, rows, &pieces[index++], passes + count);
  }
  *status = IronOperationEncodePasses(commands, passes, count);
  return true;
}
