#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "SoftPages.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

size_t soft_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

size_t soft_pages_rounded(size_t length) {
  size_t mask = soft_page_size() - 1;
  return length > SIZE_MAX - mask ? 0 : (length + mask) & ~mask;
}

#ifdef MADV_HUGEPAGE
static const size_t large_page = (size_t)2 << 20;
#else
static const size_t large_page = SIZE_MAX;
#endif

static void *map(size_t length) {
  void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

void *soft_pages_map(size_t length) {
  size_t rounded = soft_pages_rounded(length);
  /* 0, what is too long, is refused */
  if (rounded < large_page || rounded > SIZE_MAX - large_page) return map(rounded);
  /* Large pages are where their size divides the address. What lies around these addresses goes back; it was never
   * touched. */
  char *around = map(rounded + large_page);
  if (!around) return NULL;
  size_t before = (large_page - (uintptr_t)around % large_page) % large_page;
  if (before) munmap(around, before);
  char *pages = around + before;
  munmap(pages + rounded, large_page - before);
  return pages;
}

void soft_pages_prefer_large(void *pages, size_t length) {
#ifdef MADV_HUGEPAGE
  size_t rounded = soft_pages_rounded(length);
  if (rounded >= large_page) madvise(pages, rounded, MADV_HUGEPAGE); /* a system that refuses has small pages */
#else
  (void)pages, (void)length;
#endif
}

void soft_pages_unmap(void *pages, size_t length) { munmap(pages, soft_pages_rounded(length)); }

void soft_pages_discard(void *pages, size_t length) {
  /* Fresh pages over the old ones, and not madvise: on a Mac MADV_DONTNEED gives nothing back and MADV_FREE late. */
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_FIXED;
  void *fresh = mmap(pages, soft_pages_rounded(length), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (fresh == MAP_FAILED) abort(); /* the old mapping may be gone, so there is nothing valid to go on with */
}

uint64_t soft_machine_memory(void) { return (uint64_t)sysconf(_SC_PHYS_PAGES) * soft_page_size(); }
