#import "SoftPixelFormat.h"

static const soft_pixel_format formats[] = {
#define PIXEL_FORMAT(NAME, name, kind, bytes, components, bgra) \
  {MTLPixelFormat##name, SOFT_##kind, bytes, components, bgra},
#include "pixel_formats.def"
    {MTLPixelFormatDepth16Unorm, SOFT_UNORM, 2, 1, false},
    {MTLPixelFormatDepth32Float, SOFT_FLOAT, 4, 1, false},
};

const soft_pixel_format *soft_pixel_format_find(MTLPixelFormat format) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].format == format) return &formats[i];
  return NULL;
}
