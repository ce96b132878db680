/* How texels of an MTLPixelFormat lie in memory. */
#ifndef SOFT_PIXEL_FORMAT_H
#define SOFT_PIXEL_FORMAT_H

#import <Metal/Metal.h>

#include "backend.h"

typedef struct soft_pixel_format {
  MTLPixelFormat format;
  soft_component component;
  uint8_t component_bytes, components;
  bool is_bgra;
} soft_pixel_format;

/* NULL: textures here have no such format. */
const soft_pixel_format *soft_pixel_format_find(MTLPixelFormat format);

static inline NSUInteger soft_texel_bytes(const soft_pixel_format *format) {
  return (NSUInteger)format->component_bytes * format->components;
}

#endif
