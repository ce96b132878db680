/* Stages in threadgroup memory that one SIMD-group fills with rows of memory while the others use those before.
 *
 * The SIMD-group that copies and those that use a stage call await() and release() for each stage in their order;
 * between them a user has the stage, and behind release() the next fill() finds room. Before the first await() stands a
 * barrier of the threadgroup, and at most as many fills as there are stages.
 *
 * Metal has copies by the threads that wait for them. This repository's standard library names the instructions of
 * devices that copy whole rows and count the bytes. */
#ifndef IRON_KERNELS_ROW_COPIES_H
#define IRON_KERNELS_ROW_COPIES_H

/* STAGES of ROWS rows, each PITCH bytes behind the one before, for USERS SIMD-groups. */
template <uint ROWS, uint PITCH, uint STAGES, uint USERS> struct row_stages {
  threadgroup uchar *memory;
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
  threadgroup ulong *full, *empty; /* [STAGES] */
#endif
  uint filled, used, parity;

  /* `barriers`: 2 STAGES numbers. */
  void place(threadgroup uchar *stages, threadgroup ulong *barriers) {
    memory = stages;
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
    full = barriers;
    empty = barriers + STAGES;
#else
    (void)barriers;
#endif
    filled = used = parity = 0;
  }
  threadgroup const uchar *stage() const { return memory + used * ROWS * PITCH; }

#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
  void start() const {
#pragma unroll
    for (uint i = 0; i < STAGES; ++i) {
      msl::copy_barrier_start_once(full + i, 1);
      msl::copy_barrier_start_once(empty + i, 32 * USERS);
    }
    msl::copy_barriers_ready();
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  /* The barrier of all threads that stands before the first await(). The SIMD-group that copies passes it without
   * waiting, at once behind start(), and must not have anything for the others. */
  void pass() const { msl::tell_barrier(32 * USERS + 32); }
  void begin(bool copies) const {
    if (!copies) msl::wait_at_barrier(32 * USERS + 32);
  }
  /* The next stage: rows that are `stride` bytes apart, up to row `last`, which then comes again. Each is `bytes` long,
   * a multiple of 16, as addresses are. */
  void fill(device const uchar *rows, ulong stride, uint last, uint bytes, uint lane) {
    if (lane == 0) msl::copy_barrier_expect(full + filled, bytes * ROWS);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup uchar *to = memory + filled * ROWS * PITCH;
#pragma unroll 4
    for (uint r = 0; r < ROWS; ++r) {
      msl::bulk_copy_once(to, rows, bytes, full + filled);
      to += PITCH;
      rows += r < last ? stride : 0;
    }
    filled = filled + 1 == STAGES ? 0 : filled + 1;
  }
  void await(bool copies) const {
    if (copies) return;
    msl::copy_barrier_wait(full + used, parity);
  }
  /* `more`: the stage is going to be filled again. */
  void release(bool copies, bool more) {
    if (copies) {
      if (more) msl::copy_barrier_wait(empty + used, parity);
    } else {
      msl::copy_barrier_arrive(empty + used);
    }
    next();
  }
#else
  void start() const {}
  void pass() const {}
  void begin(bool) const { threadgroup_barrier(mem_flags::mem_threadgroup); }
  void fill(device const uchar *rows, ulong stride, uint last, uint bytes, uint lane) {
    device const uchar *row = rows + min(lane, last) * stride;
    threadgroup uint4 *to = (threadgroup uint4 *)(memory + (filled * ROWS + lane) * PITCH);
    if (lane < ROWS)
      for (uint i = 0; i < bytes / 16; ++i) async_copy(to + i, (device const uint4 *)row + i);
    async_copy_close();
    filled = filled + 1 == STAGES ? 0 : filled + 1;
  }
  void await(bool) const {
    async_copy_wait<0>();
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  void release(bool, bool) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    next();
  }
#endif
  void next() {
    if (++used == STAGES) {
      used = 0;
      parity ^= 1;
    }
  }
};

#endif
