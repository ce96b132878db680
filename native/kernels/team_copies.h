/* Stages in threadgroup memory that hold rows of memory, one panel of ROWS rows after the other. Teams of SIMD-groups
 * take turns with panels.
 *
 * All SIMD-groups call await() and release() for each panel; between them its team has its rows. Who fills the stage
 * again calls emptied() first. start() and the first fill() of a stage are one SIMD-group's, and before the first
 * await() stands a barrier of the threadgroup.
 *
 * Metal has copies by the threads that wait for them. This repository's standard library names the instructions of
 * devices that copy whole rows and count the bytes. */
#ifndef IRON_KERNELS_TEAM_COPIES_H
#define IRON_KERNELS_TEAM_COPIES_H

/* Rows of a stage are PITCH bytes apart. USERS: SIMD-groups of the threadgroup. */
template <uint ROWS, uint PITCH, uint STAGES, uint USERS> struct team_stages {
  threadgroup uchar *memory;
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
  threadgroup ulong *full, *empty; /* [STAGES] */
#endif

  /* `barriers`: 2 STAGES numbers. */
  void place(threadgroup uchar *stages, threadgroup ulong *barriers) {
    memory = stages;
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
    full = barriers;
    empty = barriers + STAGES;
#else
    (void)barriers;
#endif
  }
  threadgroup uchar *stage(uint panel) const { return memory + panel % STAGES * ROWS * PITCH; }

#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
  void start(uint stage) const {
    msl::copy_barrier_start_once(full + stage, 1);
    msl::copy_barrier_start_once(empty + stage, 32 * USERS);
    msl::copy_barriers_ready();
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  /* Each `step` rows of a panel from `first` on, which are `stride` bytes apart, up to row `last`, which then comes
   * again. Each is `bytes` long, a multiple of 16, as addresses are. */
  void fill(uint panel, device const uchar *rows, ulong stride, uint last, uint bytes, uint first, uint step,
            uint lane) const {
    threadgroup ulong *barrier = full + panel % STAGES;
    if (first == 0 && lane == 0) msl::copy_barrier_expect(barrier, bytes * ROWS);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll 4
    for (uint r = first; r < ROWS; r += step)
      msl::bulk_copy_once(stage(panel) + r * PITCH, rows + min(r, last) * stride, bytes, barrier);
  }
  void await(uint panel) const { msl::copy_barrier_wait(full + panel % STAGES, panel / STAGES % 2); }
  void release(uint panel) const { msl::copy_barrier_arrive(empty + panel % STAGES); }
  void emptied(uint panel) const { msl::copy_barrier_wait(empty + panel % STAGES, panel / STAGES % 2); }
#else
  void start(uint) const {}
  void fill(uint panel, device const uchar *rows, ulong stride, uint last, uint bytes, uint first, uint step,
            uint lane) const {
    for (uint r = first; r < ROWS; r += step) {
      threadgroup uint4 *to = (threadgroup uint4 *)(stage(panel) + r * PITCH);
      device const uint4 *from = (device const uint4 *)(rows + min(r, last) * stride);
      for (uint i = lane; i < bytes / 16; i += 32) async_copy(to + i, from + i);
    }
    async_copy_close();
  }
  void await(uint) const {
    async_copy_wait<0>();
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  void release(uint) const { threadgroup_barrier(mem_flags::mem_threadgroup); }
  void emptied(uint) const {}
#endif
};

#endif
