/* Bounds checks, in validation mode: the compiler puts a call before each access to memory (-fsanitize=kernel-address
 * with outlined checks, which needs no runtime library), and these functions decide. An access is right when it lies in
 * one of the ranges that the executor names, on the thread's own stack, or in this library (its constants). */
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
  for (uint i = 0; i < group->accessible_count; i++) {
    const msl_binding *range = &group->accessible[i];
    if (inside(address, size, (ulong)range->pointer, range->length)) return;
  }
  group->runtime->out_of_bounds(lane, address, size, write);
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
}

#undef MSL_UNCHECKED

#endif
