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
  void start(uint lane) const {
    if (lane < STAGES) {
      msl::copy_barrier_start(full + lane, 1);
      msl::copy_barrier_start(empty + lane, USERS);
    }
    msl::copy_barriers_ready();
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  /* Row `lane` of the next stage, `bytes` long, a multiple of 16 as its address is. */
  void fill(device const uchar *row, uint bytes, uint lane) {
    if (lane == 0) msl::copy_barrier_expect(full + filled, bytes * ROWS);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane < ROWS) msl::bulk_copy(memory + (filled * ROWS + lane) * PITCH, row, bytes, full + filled);
    filled = filled + 1 == STAGES ? 0 : filled + 1;
  }
  void await(bool copies) const {
    if (copies) return;
    msl::copy_barrier_wait(full + used, parity);
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  /* `more`: the stage is going to be filled again. */
  void release(bool copies, bool more, uint lane) {
    if (copies) {
      if (more) msl::copy_barrier_wait(empty + used, parity);
    } else {
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (lane == 0) msl::copy_barrier_arrive(empty + used);
    }
    next();
  }
#else
  void start(uint) const {}
  void fill(device const uchar *row, uint bytes, uint lane) {
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
  void release(bool, bool, uint) {
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
