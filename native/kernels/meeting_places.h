/* Places in threadgroup memory where a team of SIMD-groups leaves numbers and then finds those of the others. All
 * SIMD-groups of the threadgroup call leave() as often, and a team's find() behind it. Where a device has no
 * barriers of single teams, the whole threadgroup meets. */
#ifndef IRON_KERNELS_MEETING_PLACES_H
#define IRON_KERNELS_MEETING_PLACES_H

struct meeting_places {
#ifdef __HAVE_IRONBRIDGE_BULK_COPY__
  threadgroup ulong *barriers;
  void place(threadgroup ulong *of_places) { barriers = of_places; }
  /* One SIMD-group calls it, in front of a barrier of the threadgroup. */
  void start(uint places, uint users) const {
    for (uint i = 0; i < places; ++i) msl::copy_barrier_start_once(barriers + i, 32 * users);
  }
  void leave(bool is_its, uint place) const {
    if (is_its) msl::copy_barrier_arrive(barriers + place);
  }
  void find(uint place, uint parity) const { msl::copy_barrier_wait(barriers + place, parity); }
#else
  void place(threadgroup ulong *) {}
  void start(uint, uint) const {}
  void leave(bool, uint) const { threadgroup_barrier(mem_flags::mem_threadgroup); }
  void find(uint, uint) const {}
#endif
};

#endif
