/* Memory from the system in whole pages: the one place that knows how a buffer's memory is mapped (guard pages would go
 * here). Lengths need not be rounded. */
#ifndef SOFT_PAGES_H
#define SOFT_PAGES_H

#include <stddef.h>
#include <stdint.h>

size_t soft_page_size(void);
/* `length` rounded up to whole pages; 0 when that overflows. */
size_t soft_pages_rounded(size_t length);
/* Zeroed memory, or NULL. */
void *soft_pages_map(size_t length);
/* Before the first touch, of memory that will be touched as a whole: memory of 2 MiB and more comes in pages of 2 MiB,
 * where the system has them. The processor prefetches across 4 KiB, and needs a translation for each page that it
 * reads. */
void soft_pages_prefer_large(void *pages, size_t length);
void soft_pages_unmap(void *pages, size_t length);
/* Gives the memory back to the system and keeps the addresses: the next touch finds zeroes, in small pages. */
void soft_pages_discard(void *pages, size_t length);
/* The machine's memory in bytes. */
uint64_t soft_machine_memory(void);

#endif
