/* Bounds checks, in validation mode: the compiler puts a call before each access to memory (-fsanitize=kernel-address
 * with outlined checks, which needs no runtime library), and these functions decide. An access is right when it lies in
 * one of the ranges that the executor names, on the thread's own stack, or in this library (its constants). What an
 * array is indexed with is checked beside that, so that one thread's arrays do not run into each other.
 *
 * With MSL_COUNTS, in counting mode, the same calls also add up what the threads ask for. */
#ifndef MSL_VALIDATION_H
#define MSL_VALIDATION_H

#include "threads.h"

extern "C" {
#if defined(__APPLE__)
extern const unsigned char msl_image_start[] __asm("__mh_dylib_header");
constexpr unsigned long msl_image_limit = 16ul << 20; /* Mach-O has no symbol at an image's end */
#else
extern __attribute__((visibility("hidden"))) const unsigned char __ehdr_start[], _end[];
#endif
}

namespace msl {

#define MSL_UNCHECKED __attribute__((no_sanitize("kernel-address")))

MSL_UNCHECKED MSL_INLINE bool inside(ulong address, ulong size, ulong start, ulong length) {
  return address - start < length && size <= length - (address - start);
}

#if defined(MSL_COUNTS)
/* Threads of other workers mark the same lines: with the same value. */
MSL_UNCHECKED MSL_INLINE void mark_lines(unsigned char *lines, ulong first, ulong last) {
  for (ulong line = first; line <= last; line++) {
    if (!__atomic_load_n(&lines[line], __ATOMIC_RELAXED)) __atomic_store_n(&lines[line], 1, __ATOMIC_RELAXED);
  }
}

/* Whether the access is one of device or threadgroup memory, and then it is counted. */
MSL_UNCHECKED MSL_INLINE bool count_access(msl_counts *counts, ulong address, ulong size, bool write) {
  if (!counts) return false;
  if (inside(address, size, counts->threadgroup_start, counts->threadgroup_length)) {
    (write ? counts->threadgroup_stored : counts->threadgroup_loaded) += size;
    return true;
  }
  for (ulong i = 0; i < counts->extent_count; i++) {
    const msl_extent *extent = &counts->extents[i];
    if (!inside(address, size, extent->start, extent->length)) continue;
    (write ? counts->stored : counts->loaded) += size;
    ulong first = extent->start / MSL_LINE, last = (address + size - 1) / MSL_LINE;
    mark_lines(write ? extent->written : extent->read, address / MSL_LINE - first, last - first);
    return true;
  }
  return false;
}
#endif

MSL_UNCHECKED __attribute__((noinline)) inline void check(ulong address, ulong size, bool write) {
  ulong stack = (ulong)__builtin_frame_address(0) & ~(ulong)(MSL_STACK - 1);
  if (inside(address, size, stack, MSL_STACK) || size == 0) return;
#if defined(__APPLE__)
  if (inside(address, size, (ulong)msl_image_start, msl_image_limit)) return;
#else
  if (inside(address, size, (ulong)__ehdr_start, (ulong)(_end - __ehdr_start))) return;
#endif
  msl_lane *lane = *(msl_lane **)(stack + MSL_STACK - 16);
  const msl_group *group = lane->group;
#if defined(MSL_COUNTS)
  if (count_access(group->counts, address, size, write)) return;
#endif
  for (uint i = 0; i < group->accessible_count; i++) {
    const msl_binding *range = &group->accessible[i];
    if (inside(address, size, (ulong)range->pointer, range->length)) return;
  }
  group->runtime->out_of_bounds(lane, address, size, write);
}

/* What the compiler tells of an index (-fsanitize=array-bounds, UndefinedBehaviorSanitizer's structs). */
struct type_name {
  ushort kind;
  ushort form; /* of an integer: its sign and the logarithm of its bits */
  char name[1];
};
struct array_place {
  const char *file;
  uint line, column;
  const type_name *array, *index;
};

MSL_UNCHECKED __attribute__((noinline)) inline void refuse_index(const array_place *place, ulong index) {
  uint unused = 64 - (1u << (place->index->form >> 1));
  bool is_signed = place->index->form & 1;
  long value = is_signed ? (long)(index << unused) >> unused : (long)index;
  msl_lane *lane = self();
  lane->group->runtime->out_of_array(lane, value, place->array->name, place->line);
}

}

extern "C" {
#define MSL_CHECKS(size)                                                                                               \
  MSL_UNCHECKED inline __attribute__((used)) void __asan_load##size##_noabort(ulong a) { msl::check(a, size, false); } \
  MSL_UNCHECKED inline __attribute__((used)) void __asan_store##size##_noabort(ulong a) { msl::check(a, size, true); }
MSL_CHECKS(1)
MSL_CHECKS(2)
MSL_CHECKS(4)
MSL_CHECKS(8)
MSL_CHECKS(16)
#undef MSL_CHECKS
MSL_UNCHECKED inline __attribute__((used)) void __asan_loadN_noabort(ulong a, ulong size) {
  msl::check(a, size, false);
}
MSL_UNCHECKED inline __attribute__((used)) void __asan_storeN_noabort(ulong a, ulong size) {
  msl::check(a, size, true);
}
MSL_UNCHECKED inline __attribute__((used)) void *__asan_memcpy(void *to, const void *from, ulong size) {
  msl::check((ulong)from, size, false);
  msl::check((ulong)to, size, true);
  return __builtin_memcpy(to, from, size);
}
MSL_UNCHECKED inline __attribute__((used)) void *__asan_memmove(void *to, const void *from, ulong size) {
  msl::check((ulong)from, size, false);
  msl::check((ulong)to, size, true);
  return __builtin_memmove(to, from, size);
}
MSL_UNCHECKED inline __attribute__((used)) void *__asan_memset(void *to, int value, ulong size) {
  msl::check((ulong)to, size, true);
  return __builtin_memset(to, value, size);
}
MSL_UNCHECKED inline __attribute__((used)) void __asan_handle_no_return() {}
MSL_UNCHECKED inline __attribute__((used)) void __ubsan_handle_out_of_bounds_abort(void *place, ulong index) {
  msl::refuse_index((const msl::array_place *)place, index);
}
}

#undef MSL_UNCHECKED

#endif
