/* The kernels' Metal sources, embedded by build.rs with their headers inlined: one entry per
 * native/kernels/NAME.metal. */
#ifndef IRON_KERNELS_SOURCES_H
#define IRON_KERNELS_SOURCES_H

#include <stddef.h>

typedef struct kernel_source {
  const char *family; /* "matmul" */
  const char *text;   /* UTF-8, NUL-terminated */
  size_t length;      /* bytes, without the NUL */
} kernel_source;

extern const kernel_source kernel_sources[];
extern const size_t kernel_source_count;

#endif
