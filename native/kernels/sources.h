/* The kernels' Metal sources, embedded by build.rs with their headers inlined: one entry per native/kernels/NAME.metal.
 * A header is in the program once, however many kernels include it. */
#ifndef IRON_KERNELS_SOURCES_H
#define IRON_KERNELS_SOURCES_H

#include <stddef.h>

typedef struct kernel_text {
  const char *bytes; /* whole lines of UTF-8, without a NUL */
  size_t length;
} kernel_text;

typedef struct kernel_source {
  const char *family;       /* "matmul" */
  const kernel_text *parts; /* the source is one behind the other */
  size_t part_count;
} kernel_source;

extern const kernel_source kernel_sources[];
extern const size_t kernel_source_count;

#endif
