#import "textures.h"

#import "base/entry.h"
#import "base/structs.h"
#import "device/device.h"

enum { MAX_EXTENT = 16384, TEXTURE_2D = 2 };

typedef struct Format {
  uint32_t format;
  uint32_t texel_bytes;
  iron_texture_value value;
} Format;

enum {
  VALUE_OF_UNORM = IRON_TEXTURE_FLOAT,
  VALUE_OF_SNORM = IRON_TEXTURE_FLOAT,
  VALUE_OF_SRGB = IRON_TEXTURE_FLOAT,
  VALUE_OF_FLOAT = IRON_TEXTURE_FLOAT,
  VALUE_OF_UINT = IRON_TEXTURE_UINT,
  VALUE_OF_SINT = IRON_TEXTURE_SINT,
};

static const Format formats[] = {
#define PIXEL_FORMAT(NAME, name, kind, bytes, components, bgra) \
  {IRON_PIXEL_##NAME, (bytes) * (components), (iron_texture_value)VALUE_OF_##kind},
#include "pixel_formats.def"
};

static const Format *format_of(uint32_t format) {
  for (size_t index = 0; index < sizeof formats / sizeof *formats; index++)
    if (formats[index].format == format) return &formats[index];
  return NULL;
}

static uint64_t row_bytes_of(const iron_texture *texture, const Format *format) {
  return texture->row_bytes ? texture->row_bytes : (uint64_t)texture->width * format->texel_bytes;
}

iron_status IronTextureRead(const iron_argument *argument, const char *name, IronDevice *device) {
  const iron_texture *texture = argument->bytes;
  if (!texture) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL, and no iron_texture", name);
  IRON_CHECK_RESERVED(name, *texture);
  const Format *format = format_of(texture->format);
  if (!format) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: format %u is none", name, texture->format);
  const uint32_t extents[] = {texture->width, texture->height};
  for (int axis = 0; axis < 2; axis++)
    if (extents[axis] < 1 || extents[axis] > MAX_EXTENT)
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %s %u, 1 to %d are possible", name,
                             axis ? "height" : "width", extents[axis], MAX_EXTENT);
  uint64_t row = row_bytes_of(texture, format), least = (uint64_t)texture->width * format->texel_bytes;
  if (row < least)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: row_bytes %llu, a row has %llu", name,
                           (unsigned long long)row, (unsigned long long)least);
  /* The software device's own answer. */
  uint64_t alignment = [device->metal minimumLinearTextureAlignmentForPixelFormat:(MTLPixelFormat)format->format];
  if (alignment == 0)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED, "%s: textures are not supported on this backend", name);
  if (row % alignment || argument->offset % alignment)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "%s: offset %llu and row_bytes %llu are to be multiples of %llu on this device", name,
                           (unsigned long long)argument->offset, (unsigned long long)row,
                           (unsigned long long)alignment);
  return IRON_OK;
}

iron_status IronTextureFits(const iron_argument *argument, const char *name, IronBuffer *buffer) {
  const iron_texture *texture = argument->bytes;
  const Format *format = format_of(texture->format);
  uint64_t last = (uint64_t)texture->width * format->texel_bytes;
  uint64_t bytes = row_bytes_of(texture, format) * (texture->height - 1) + last;
  if (bytes <= buffer->length - argument->offset) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: a texture of %llu bytes, the buffer has %llu from the offset on",
                         name, (unsigned long long)bytes, (unsigned long long)(buffer->length - argument->offset));
}

iron_status IronTextureSuits(const iron_argument *argument, const char *name, uint32_t type, uint32_t value) {
  const Format *format = format_of(((const iron_texture *)argument->bytes)->format);
  if (type != TEXTURE_2D)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED, "%s: the kernel takes a texture of MTLTextureType %u, and only 2D "
                           "ones can be given", name, type);
  if (format->value == value) return IRON_OK;
  static const char *const values[] = {"something else", "floats", "unsigned integers", "signed integers"};
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its format %u has %s, and the kernel takes %s", name,
                         format->format, values[format->value], values[value <= IRON_TEXTURE_SINT ? value : 0]);
}

iron_status IronTextureSamplerRead(const iron_argument *argument, const char *name) {
  const iron_texture_sampler *sampler = argument->bytes;
  if (!sampler)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL, and no iron_texture_sampler", name);
  IRON_CHECK_RESERVED(name, *sampler);
  if (sampler->linear > 1 || sampler->pixels > 1)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: linear %u and pixels %u are to be 0 or 1", name,
                           sampler->linear, sampler->pixels);
  for (int axis = 0; axis < 3; axis++) {
    uint32_t mode = sampler->address[axis];
    if (mode > IRON_ADDRESS_CLAMP_TO_BORDER)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: address[%d] %u is none", name, axis, mode);
    if (sampler->pixels && mode != IRON_ADDRESS_CLAMP_TO_EDGE && mode < IRON_ADDRESS_CLAMP_TO_ZERO)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: address[%d] %u repeats, and coordinates count texels",
                             name, axis, mode);
  }
  return IRON_OK;
}

iron_status IronTextureMake(id<MTLTexture> *result, const iron_argument *argument, IronBuffer *buffer) {
  const iron_texture *texture = argument->bytes;
  MTLTextureDescriptor *descriptor =
      [MTLTextureDescriptor texture2DDescriptorWithPixelFormat:(MTLPixelFormat)texture->format
                                                         width:texture->width
                                                        height:texture->height
                                                     mipmapped:NO];
  [descriptor setResourceOptions:[buffer->metal resourceOptions]];
  MTLTextureUsage usage = 0;
  if (argument->access & IRON_ACCESS_READ) usage |= MTLTextureUsageShaderRead;
  if (argument->access & IRON_ACCESS_WRITE) usage |= MTLTextureUsageShaderWrite;
  [descriptor setUsage:usage];
  id<MTLTexture> made =
      [[buffer->metal newTextureWithDescriptor:descriptor
                                        offset:argument->offset
                                   bytesPerRow:row_bytes_of(texture, format_of(texture->format))] autorelease];
  if (!made) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for a texture");
  *result = made;
  return IRON_OK;
}

iron_status IronTextureSamplerMake(id<MTLSamplerState> *result, const iron_argument *argument, IronDevice *device) {
  const iron_texture_sampler *sampler = argument->bytes;
  MTLSamplerDescriptor *descriptor = [[[MTLSamplerDescriptor alloc] init] autorelease];
  MTLSamplerMinMagFilter filter = sampler->linear ? MTLSamplerMinMagFilterLinear : MTLSamplerMinMagFilterNearest;
  [descriptor setMinFilter:filter];
  [descriptor setMagFilter:filter];
  [descriptor setSAddressMode:(MTLSamplerAddressMode)sampler->address[0]];
  [descriptor setTAddressMode:(MTLSamplerAddressMode)sampler->address[1]];
  [descriptor setRAddressMode:(MTLSamplerAddressMode)sampler->address[2]];
  [descriptor setNormalizedCoordinates:!sampler->pixels];
  id<MTLSamplerState> made = [[device->metal newSamplerStateWithDescriptor:descriptor] autorelease];
  if (!made) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for a sampler");
  *result = made;
  return IRON_OK;
}
