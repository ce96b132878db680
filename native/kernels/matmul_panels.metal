/* matmul_panels_<B>_f32: products of 2 to 16 rows of activations that are bytes with weights in blocks, by matrix
 * units, and what stands behind them in a model. matmul_panels_bytes makes these bytes, and matmul_panels_sum adds up
 * slices. Contracts in args.h; besides, b lies at a multiple of 16 bytes, and so do its rows, whose k weights are
 * multiples of 16 bytes, too. k is a multiple of 256.
 *
 * Geometry: threadgroups of 32 MATMUL_PANELS_SIMDGROUPS threads, each for a slice of every row of b that is its own:
 * (any number that share out the rows of b, slices, 1). Threadgroup memory: MATMUL_PANELS_MEMORY of args.h.
 * matmul_panels_bytes: one of 128 threads for each 1,024 activations of each of 16 rows: (k / 1024 rounded up, 16, 1).
 * matmul_panels_sum: a thread for each element, dispatchThreads (n, m, 1).
 *
 * A threadgroup takes panels of ROWS rows of b. Each SIMD-group has the activations of UNIT columns in registers, and
 * multiplies them with these columns of one panel after the other. As many as a slice has units are a team, whose sums
 * meet in threadgroup memory, while the next panel is multiplied. Panels are copied ahead (team_copies.h), the first of
 * them before the kernel's predecessor has ended, unless a kernel may write them. */
#include <metal_stdlib>
using namespace metal;
#include "args.h"
#include "blocks.h"
#include "integer_dot.h"
#include "async_copy.h"
#include "team_copies.h"
#include "meeting_places.h"
#include "byte_matrix.h"
#include "byte_rows.h"
#include "packed_words.h"
#include "row_tiles.h"

constant constexpr uint ROWS = MATMUL_PANELS_ROWS, ELEMENTS = ROWS * ROWS, PLACES = MATMUL_PANELS_PLACES;
constant constexpr uint SIMDGROUPS = MATMUL_PANELS_SIMDGROUPS, THREADS = 32 * SIMDGROUPS;
constant constexpr uint UNIT = MATMUL_PANELS_SLICE / SIMDGROUPS, BLOCKS = UNIT / 32;
/* Of a block of 32 activations: the bytes of all rows, then of each the scale and another number. */
constant constexpr uint WORDS_BYTES = 32 * ROWS, SCALES_BYTES = 8 * ROWS;

/* Of 32 neighboring weights of a row what lane 4 g + t multiplies, the bytes from 4 t and from 16 + 4 t on. The first
 * 16 and the others have a scale each. */
struct some_weights {
  uint first, second;
  float scales[2];
};

/* Types of weights. A slice has a multiple of GRANULE weights, whose bytes are a multiple of 16. Bytes are FACTOR times
 * a weight over its scales: high bits of a byte need no subtraction to be signed. `read`: of the 32 weights of block
 * `block` behind `row`, where a unit begins, what a lane multiplies; WITHIN: it begins in the middle of a word.
 * HAS_UNIT_SCALE: of these products `unit_scale` is another factor. HAS_LEAST: `least_scale` times the number of
 * `least`, of blocks 2 t and 2 t + 1, is subtracted from each weight. */
struct panels_q4_0 {
  enum { BLOCK = 32, BYTES = 18, GRANULE = 256, SCALES = 1, HAS_UNIT_SCALE = 0, HAS_LEAST = 0, FACTOR = 16 };
  template <bool WITHIN> static void read(threadgroup const uint *row, uint block, uint t, thread some_weights &w) {
    row += block / 2 * 9; /* two blocks are 9 words */
    uint word = (block % 2 ? row[t + 5] : straddling(row[t], row[t + 1])) ^ 0x88888888u;
    w.first = word << 4 & 0xf0f0f0f0u;
    w.second = word & 0xf0f0f0f0u;
    w.scales[0] = block % 2 ? high_half(row[4]) : low_half(row[0]);
  }
};

struct panels_q8_0 {
  enum { BLOCK = 32, BYTES = 34, GRANULE = 256, SCALES = 1, HAS_UNIT_SCALE = 0, HAS_LEAST = 0, FACTOR = 1 };
  template <bool WITHIN> static void read(threadgroup const uint *row, uint block, uint t, thread some_weights &w) {
    row += block / 2 * 17; /* two blocks are 17 words */
    threadgroup const uint *word = row + t;
    w.first = block % 2 ? word[9] : straddling(word[0], word[1]);
    w.second = block % 2 ? word[13] : straddling(word[4], word[5]);
    w.scales[0] = block % 2 ? high_half(row[8]) : low_half(row[0]);
  }
};

/* A byte, less `above`: it is the last one of a float that is 2^23 more. */
static inline float number_of_byte(uint word, uint place, float above = 0) {
  return as_type<float>((word >> place & 255) | 0x4b000000) - (8388608.0f + above);
}

struct panels_q4_k {
  enum { BLOCK = 256, BYTES = 144, GRANULE = 256, SCALES = 1, HAS_UNIT_SCALE = 1, HAS_LEAST = 1, FACTOR = 1 };
  template <bool WITHIN> static void read(threadgroup const uint *row, uint block, uint t, thread some_weights &w) {
    uint shift = block % 2 * 4;
    w.first = row[4 + block / 2 * 8 + t] >> shift & 0x0f0f0f0fu;
    w.second = row[8 + block / 2 * 8 + t] >> shift & 0x0f0f0f0fu;
    /* get_scale_min_k4 of ggml-quants.c, of four blocks. */
    uint four = block < 4 ? row[1] & 0x3f3f3f3fu : (row[3] & 0x0f0f0f0fu) | (row[1] >> 2 & 0x30303030u);
    w.scales[0] = number_of_byte(four, block % 4 * 8);
  }
  static float2 least(threadgroup const uint *row, uint t) {
    uint four = t < 2 ? row[2] & 0x3f3f3f3fu : (row[3] >> 4 & 0x0f0f0f0fu) | (row[2] >> 2 & 0x30303030u);
    four >>= t % 2 * 16;
    return float2(number_of_byte(four, 0), number_of_byte(four, 8));
  }
  template <bool WITHIN> static float unit_scale(threadgroup const uint *row) { return low_half(row[0]); }
  static float least_scale(threadgroup const uint *row) { return high_half(row[0]); }
};

/* Each 16 weights have a scale. */
struct panels_q6_k {
  enum { BLOCK = 256, BYTES = 210, GRANULE = 2048, SCALES = 2, HAS_UNIT_SCALE = 1, HAS_LEAST = 0, FACTOR = 4 };
  template <bool WITHIN> static uint at(threadgroup const uint *from) {
    return WITHIN ? straddling(from[0], from[1]) : from[0];
  }
  static uint joined(uint nibbles, uint bits, uint i) {
    uint low = i < 2 ? nibbles << 2 : nibbles >> 2;
    return (low & 0x3c3c3c3cu) | ((bits ^ 0xaaaaaaaau) << (6 - 2 * i) & 0xc0c0c0c0u);
  }
  template <bool WITHIN> static void read(threadgroup const uint *row, uint block, uint t, thread some_weights &w) {
    uint side = block / 4, i = block % 4;
    threadgroup const uint *low = row + side * 16 + i % 2 * 8 + t, *high = row + 32 + side * 8 + t;
    w.first = joined(at<WITHIN>(low), at<WITHIN>(high), i);
    w.second = joined(at<WITHIN>(low + 4), at<WITHIN>(high + 4), i);
    /* Signed bytes, 128 more. */
    uint four = at<WITHIN>(row + 48 + block / 2) ^ 0x80808080u;
    w.scales[0] = number_of_byte(four, block % 2 * 16, 128);
    w.scales[1] = number_of_byte(four, block % 2 * 16 + 8, 128);
  }
  template <bool WITHIN> static float unit_scale(threadgroup const uint *row) { return low_half(at<WITHIN>(row + 52)); }
};

/* sums[4 h + i] += the products of a block of both rows with columns 8 h + 2 t and 8 h + 2 t + 1, of both h or of 0.
 * x, scales: the block's activations.
 *
 * An integer sum is a float FLOAT_ORIGIN above it. That times the scale has no rounding in it, since a scale of
 * matmul_panels_bytes is two bits short. */
template <typename B, bool MANY>
static inline void add_block(thread float *sums, thread const some_weights &upper, thread const some_weights &lower,
                             thread const uint2 *x, threadgroup const float4 *scales, uint lane) {
#pragma unroll
  for (uint h = 0; h < (MANY ? 2 : 1); ++h) {
    float4 s = scales[4 * h + lane % 4];
#pragma unroll
    for (uint part = 0; part < B::SCALES; ++part) {
      int products[4];
#pragma unroll
      for (uint i = 0; i < 4; ++i) products[i] = FLOAT_BITS;
      if (B::SCALES == 1)
        multiply_bytes(products, upper.first, lower.first, upper.second, lower.second, x[h].x, x[h].y, lane);
      else if (part == 0) multiply_few_bytes(products, upper.first, lower.first, x[h].x, lane);
      else multiply_few_bytes(products, upper.second, lower.second, x[h].y, lane);
      float p = upper.scales[part], q = lower.scales[part];
      sums[4 * h] += p * fma(as_type<float>(products[0]), s.x, s.y);
      sums[4 * h + 1] += p * fma(as_type<float>(products[1]), s.z, s.w);
      sums[4 * h + 2] += q * fma(as_type<float>(products[2]), s.x, s.y);
      sums[4 * h + 3] += q * fma(as_type<float>(products[3]), s.z, s.w);
    }
  }
}

/* What there is behind the blocks of a unit. */
template <typename B, bool MANY, bool WITHIN, bool = B::HAS_UNIT_SCALE, bool = B::HAS_LEAST> struct unit_end {
  static void add(thread float *, threadgroup const uint *, threadgroup const uint *, thread const uint2 *, uint) {}
};
template <typename B, bool MANY, bool WITHIN> struct unit_end<B, MANY, WITHIN, true, false> {
  static void add(thread float *sums, threadgroup const uint *upper, threadgroup const uint *lower,
                  thread const uint2 *, uint) {
    float p = B::template unit_scale<WITHIN>(upper), q = B::template unit_scale<WITHIN>(lower);
#pragma unroll
    for (uint i = 0; i < 8; ++i) sums[i] *= i / 2 % 2 ? q : p;
  }
};
template <typename B, bool MANY, bool WITHIN> struct unit_end<B, MANY, WITHIN, true, true> {
  static void add(thread float *sums, threadgroup const uint *upper, threadgroup const uint *lower,
                  thread const uint2 *byte_sums, uint lane) {
    unit_end<B, MANY, WITHIN, true, false>::add(sums, upper, lower, byte_sums, lane);
    float2 p = B::least(upper, lane % 4), q = B::least(lower, lane % 4);
    float upper_scale = B::least_scale(upper), lower_scale = B::least_scale(lower);
#pragma unroll
    for (uint h = 0; h < (MANY ? 2 : 1); ++h) {
      float least[4] = {0, 0, 0, 0};
      multiply_pairs(least, p, q, byte_sums[h], lane);
#pragma unroll
      for (uint i = 0; i < 4; ++i) sums[4 * h + i] -= (i / 2 ? lower_scale : upper_scale) * least[i];
    }
  }
};

/* The products of a unit, which begins at `upper` in row lane / 4, and at `lower` in row lane / 4 + 8. byte_sums: of
 * its activations, as multiply_pairs takes them. */
template <typename B, bool MANY, bool WITHIN>
static inline void add_unit(thread float *sums, threadgroup const uint *upper, threadgroup const uint *lower,
                            thread const uint2 *x, threadgroup const float4 *scales, thread const uint2 *byte_sums,
                            uint lane) {
#pragma unroll
  for (uint block = 0; block < BLOCKS; ++block) {
    some_weights above, below;
    B::template read<WITHIN>(upper, block, lane % 4, above);
    B::template read<WITHIN>(lower, block, lane % 4, below);
    add_block<B, MANY>(sums, above, below, x + 2 * block, scales + block * (SCALES_BYTES / 16), lane);
  }
  unit_end<B, MANY, WITHIN>::add(sums, upper, lower, byte_sums, lane);
}

/* An element of a product to what stands behind it. */
static inline void write_element(constant matmul_panels_args &args, device const float *bias,
                                 device const float *addend, device float *c, device float *out, uint row, uint column,
                                 float sum) {
  if (args.has_bias) sum += bias[row];
  c[column * args.c_row_stride + row] = sum;
  uint place = column * args.n + row;
  if (args.has_addend) out[place] = sum + addend[place];
}

/* Of a product, or of a slice of it. */
static inline void write_sum(constant matmul_panels_args &args, uint slice, device const float *bias,
                             device const float *addend, device float *c, device float *out, uint row, uint column,
                             float sum) {
  if (args.slices > 1) c[(slice * args.m + column) * args.n + row] = sum;
  else write_element(args, bias, addend, c, out, row, column, sum);
}

static inline void write_gated(constant matmul_panels_args &args, device const float *bias, device const float *addend,
                               device float *c, device float *out, uint row, uint column, float gate, float sum) {
  write_element(args, bias, addend, c, out, row, column, gate);
  c[(args.m + column) * args.c_row_stride + row] = sum;
  if (args.gated) out[column * args.n + row] = precise::divide(gate, 1.0f + precise::exp(-gate)) * sum;
}

/* Where the sums of a panel are: sums[i] of a lane is that of row `row_of` of the panel and row `column_of` of a. */
static inline uint row_of(uint i, uint lane) { return i / 2 % 2 * 8 + lane / 4; }
static inline uint column_of(uint i, uint lane) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }

/* Where the sums of a team's SIMD-groups meet: of each panel in one of PLACES places. */
struct team_sums {
  threadgroup float *parts;
  uint team, members, part;

  threadgroup float *of(uint number) const {
    return parts + (number % PLACES * SIMDGROUPS + team * members) * ELEMENTS;
  }
  void put(thread const float *sums, uint number, uint lane) const {
    threadgroup float *to = of(number) + part * ELEMENTS + lane;
#pragma unroll
    for (uint i = 0; i < 8; ++i) to[32 * i] = sums[i];
  }
  uint place(uint number) const { return team * PLACES + number % PLACES; }
};

/* Writes the sums of the team's panel `number`, whose first row is `start` of its plane. */
template <typename B>
static inline void finish(thread const team_sums &sums, uint number, bool gated, uint start,
                          constant matmul_panels_args &args, uint slice, device const float *bias,
                          device const float *addend, device float *c, device float *out, uint lane) {
  threadgroup float *its = sums.of(number);
  threadgroup const float *gates = sums.of(number + PLACES - 1);
  /* Half a large team is enough: the halves take turns. */
  uint first = sums.part * 32 + lane;
  if (sums.members * 32 >= 2 * ELEMENTS) first ^= number / 2 % 2 * ELEMENTS;
  for (uint i = first; i < ELEMENTS; i += sums.members * 32) {
    float sum = 0;
    for (uint member = 0; member < sums.members; ++member) sum += its[member * ELEMENTS + i];
    sum *= MATMUL_PANELS_SCALE / float(B::FACTOR);
    uint row = start + row_of(i / 32, lane), column = column_of(i / 32, lane);
    if (row >= args.n || column >= args.m) continue;
    if (!gated) write_sum(args, slice, bias, addend, c, out, row, column, sum);
    else if (number % 2 == 0) its[i] = sum;
    else write_gated(args, bias, addend, c, out, row, column, gates[i], sum);
  }
}

template <typename B>
[[kernel, max_total_threads_per_threadgroup(THREADS)]] void
matmul_panels(device const uchar *a [[buffer(MATMUL_PANELS_A)]], device const uchar *b [[buffer(MATMUL_PANELS_B)]],
              device const float *bias [[buffer(MATMUL_PANELS_BIAS)]],
              device const float *addend [[buffer(MATMUL_PANELS_ADDEND)]],
              device float *c [[buffer(MATMUL_PANELS_C)]], device float *out [[buffer(MATMUL_PANELS_OUT)]],
              constant matmul_panels_args &args [[buffer(MATMUL_PANELS_ARGS)]],
              threadgroup uchar *memory [[threadgroup(0)]], uint3 group [[threadgroup_position_in_grid]],
              uint3 groups [[threadgroups_per_grid]], uint thread_index [[thread_index_in_threadgroup]],
              uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  constexpr uint UNIT_BYTES = UNIT / B::BLOCK * B::BYTES, PITCH = MATVEC_PANELS_PITCH(SIMDGROUPS * UNIT_BYTES);
  constexpr uint STAGES = MATMUL_PANELS_RING / (ROWS * PITCH);
  static_assert(STAGES >= 2 && STAGES <= MATMUL_PANELS_MOST_STAGES, "there is room");
  allow_successor();

  uint granules = (args.k + B::GRANULE - 1) / B::GRANULE;
  uint slice = (granules + args.slices - 1) / args.slices * B::GRANULE, first_weight = group.y * slice;
  uint width = min(slice, args.k - first_weight), width_bytes = width / B::BLOCK * B::BYTES;
  ulong stride = args.b_row_stride / B::BLOCK * B::BYTES;
  device const uchar *weights = b + ulong(first_weight / B::BLOCK) * B::BYTES;
  threadgroup float4 *scales = (threadgroup float4 *)(memory + MATMUL_PANELS_RING);
  threadgroup float *parts = (threadgroup float *)(scales + MATMUL_PANELS_SLICE / 32 * SCALES_BYTES / 16);
  threadgroup ulong *barriers = (threadgroup ulong *)(parts + PLACES * SIMDGROUPS * ELEMENTS);
  team_stages<ROWS, PITCH, STAGES, SIMDGROUPS> ring;
  ring.place(memory, barriers);
  meeting_places places;
  places.place(barriers + 2 * MATMUL_PANELS_MOST_STAGES);
  tiles<ROWS> mine;
  mine.place(group.x, groups.x, args.n, args.planes == 2);
  uint count = mine.count, last_row = args.planes * args.n - 1;

  /* SIMD-groups that are in no team have no panel. */
  team_sums team;
  team.parts = parts;
  team.members = width / UNIT;
  team.team = simdgroup / team.members;
  team.part = simdgroup % team.members;
  uint teams = SIMDGROUPS / team.members;
  bool many = args.m > 8, works = team.team < teams;
#define COPY(PANEL, FIRST, STEP)                                                                           \
  {                                                                                                        \
    uint row = mine.row(PANEL);                                                                            \
    ring.fill(PANEL, weights + row * stride, stride, last_row - row, width_bytes, FIRST, STEP, lane);      \
  }
  if (simdgroup < STAGES) {
    ring.start(simdgroup);
    if (args.written) wait_for_predecessor();
    if (simdgroup < count) COPY(simdgroup, 0, 1)
  } else if (simdgroup == STAGES) {
    places.start(teams * PLACES, team.members);
  }
  wait_for_predecessor();
  device const uint4 *its_scales =
      (device const uint4 *)(a + args.k / 32 * WORDS_BYTES + first_weight / 32 * SCALES_BYTES);
  for (uint i = thread_index; i < width / 32 * (SCALES_BYTES / 16); i += THREADS)
    async_copy((threadgroup uint4 *)scales + i, its_scales + i);
  async_copy_close();
  uint2 x[2 * BLOCKS];
  device const uint2 *words = (device const uint2 *)(a + (first_weight / 32 + team.part * BLOCKS) * WORDS_BYTES) + lane;
#pragma unroll
  for (uint i = 0; i < 2 * BLOCKS; ++i) x[i] = works && (many || i % 2 == 0) ? words[32 * i] : uint2(0);
  uint2 byte_sums[2];
  if (B::HAS_LEAST) {
    device const float *from = (device const float *)(a + args.k / 32 * (WORDS_BYTES + SCALES_BYTES));
    from += (first_weight / 32 + team.part * BLOCKS + lane % 4 * 2) * ROWS + lane / 4;
#pragma unroll
    for (uint h = 0; h < 2; ++h)
      byte_sums[h] = works ? pair_of(from[8 * h], from[8 * h + ROWS]) : uint2(0);
  }
  async_copy_wait<0>();
  threadgroup_barrier(mem_flags::mem_threadgroup);

  /* A panel is finished when the next one has been multiplied, so that nobody waits for the others' sums. */
  uint turn = 0, number = 0, last = 0, lag = STAGES > 2 ? 1 : 0;
#define FINISH_LAST()                                                                         \
  if (number > 0) {                                                                           \
    places.find(team.place(number - 1), (number - 1) / PLACES % 2);                           \
    finish<B>(team, number - 1, mine.gated, last, args, group.y, bias, addend, c, out, lane); \
  }
#pragma unroll 1
  for (uint panel = 0; panel < count; ++panel) {
    bool is_its = works && turn == team.team;
    ring.await(panel);
    if (is_its) {
      bool within = UNIT_BYTES % 4 != 0 && team.part % 2 == 1;
      threadgroup const uchar *row = ring.stage(panel) + lane / 4 * PITCH + team.part * UNIT_BYTES / 4 * 4;
      threadgroup const uint *upper = (threadgroup const uint *)row;
      threadgroup const uint *lower = (threadgroup const uint *)(row + 8 * PITCH);
      threadgroup const float4 *s = scales + team.part * BLOCKS * (SCALES_BYTES / 16);
      float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
      if (many && within) add_unit<B, true, true>(sums, upper, lower, x, s, byte_sums, lane);
      else if (many) add_unit<B, true, false>(sums, upper, lower, x, s, byte_sums, lane);
      else if (within) add_unit<B, false, true>(sums, upper, lower, x, s, byte_sums, lane);
      else add_unit<B, false, false>(sums, upper, lower, x, s, byte_sums, lane);
      team.put(sums, number, lane);
    }
    ring.release(panel);
    /* Where there are stages enough, the stage that is filled again is the one before, which nobody uses any more. */
    uint done = panel - lag;
    if (is_its && panel >= lag && done + STAGES < count) {
      ring.emptied(done);
      COPY(done + STAGES, team.part, team.members)
    }
    /* Who leaves a place has done with the panel before, and so with what the next one's sums overwrite. */
    if (is_its) {
      FINISH_LAST()
    }
    places.leave(is_its, team.place(number));
    if (is_its) {
      last = mine.row(panel) - (mine.gated && panel % 2 == 1 ? args.n : 0);
      ++number;
    }
    /* A gate and what it gates are the same team's. */
    if (!mine.gated || panel % 2 == 1) turn = turn + 1 == teams ? 0 : turn + 1;
  }
  FINISH_LAST()
#undef FINISH_LAST
#undef COPY
}

[[kernel]] void matmul_panels_sum(device const float *parts [[buffer(MATMUL_PANELS_A)]],
                                  device const float *bias [[buffer(MATMUL_PANELS_BIAS)]],
                                  device const float *addend [[buffer(MATMUL_PANELS_ADDEND)]],
                                  device float *c [[buffer(MATMUL_PANELS_C)]],
                                  device float *out [[buffer(MATMUL_PANELS_OUT)]],
                                  constant matmul_panels_args &args [[buffer(MATMUL_PANELS_ARGS)]],
                                  uint2 position [[thread_position_in_grid]]) {
  if (position.x >= args.n || position.y >= args.m) return;
  float sum = 0;
  for (uint slice = 0; slice < args.slices; ++slice)
    sum += parts[ulong(slice * args.m + position.y) * args.n + position.x];
  write_element(args, bias, addend, c, out, position.x, position.y, sum);
}

/* Of rows beyond m come zeros. */
[[kernel, max_total_threads_per_threadgroup(128)]] void
matmul_panels_bytes(device const float *a [[buffer(MATMUL_PANELS_BYTES_A)]],
                    device uchar *out [[buffer(MATMUL_PANELS_BYTES_OUT)]],
                    constant matmul_panels_bytes_args &args [[buffer(MATMUL_PANELS_BYTES_ARGS)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint thread_index [[thread_index_in_threadgroup]]) {
  allow_successor();
  wait_for_predecessor();
  uint row = group.y, eight = group.x * 128 + thread_index;
  if (group.x * 128 + thread_index / 32 * 32 >= args.k / 8) return; /* 256 activations of a SIMD-group, all or none */
  float4 low = float4(0), high = float4(0);
  if (row < args.m) {
    device const float4 *from = (device const float4 *)(a + row * args.a_row_stride) + 2 * eight;
    low = from[0];
    high = from[1];
  }
  eight_bytes bytes(low, high);
  uint block = eight / 4, quarter = eight % 4;
  /* Words 0 4 1 5 2 6 3 7 of a row, so that a lane's two are neighbors. */
  device uint *words = (device uint *)(out + block * WORDS_BYTES) + row * 8 + quarter % 2 * 4 + quarter / 2;
  words[0] = bytes.low;
  words[2] = bytes.high;
  device float2 *scales = (device float2 *)(out + args.k / 32 * WORDS_BYTES + block * SCALES_BYTES) + row;
  float scale = as_type<float>(as_type<uint>(bytes.scale / MATMUL_PANELS_SCALE) & ~3u);
  if (quarter != 0) return;
  *scales = float2(scale, scale * -FLOAT_ORIGIN);
  device float *sums = (device float *)(out + args.k / 32 * (WORDS_BYTES + SCALES_BYTES)) + block * ROWS + row;
  *sums = scale * float(bytes.block_sum);
}

#define PANELS(NAME, B) template [[host_name(NAME)]] [[kernel]] decltype(matmul_panels<B>) matmul_panels<B>;

PANELS("matmul_panels_q4_0_f32", panels_q4_0)
PANELS("matmul_panels_q8_0_f32", panels_q8_0)
PANELS("matmul_panels_q4_k_f32", panels_q4_k)
PANELS("matmul_panels_q6_k_f32", panels_q6_k)
