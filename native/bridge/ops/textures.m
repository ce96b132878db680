#import "textures.h"

#import "base/entry.h"
#import "base/structs.h"
#import "device/device.h"

/* Of Apple's feature set tables, and of blits: texels from one row to the next. */
enum {
  MAX_EXTENT = 16384,
  MAX_EXTENT_3D = 2048,
  MAX_LAYERS = 2048,
  MAX_TEXELS_OF_BUFFER = 1 << 28,
  MAX_COPIED_ROW = 32767,
};

typedef struct Shape {
  MTLTextureType type;
  const char *name;
  uint32_t width, height, layers; /* the most; 1: there is no such extent */
  uint32_t faces;
  bool is_copied; /* of a buffer Metal makes 2D textures and texture buffers alone */
} Shape;

static const Shape shapes[] = {
    [IRON_TEXTURE_SHAPE_2D] = {MTLTextureType2D, "2D", MAX_EXTENT, MAX_EXTENT, 1, 1, false},
    [IRON_TEXTURE_SHAPE_1D] = {MTLTextureType1D, "1D", MAX_EXTENT, 1, 1, 1, true},
    [IRON_TEXTURE_SHAPE_1D_ARRAY] = {MTLTextureType1DArray, "1D array", MAX_EXTENT, 1, MAX_LAYERS, 1, true},
    [IRON_TEXTURE_SHAPE_2D_ARRAY] = {MTLTextureType2DArray, "2D array", MAX_EXTENT, MAX_EXTENT, MAX_LAYERS, 1, true},
    [IRON_TEXTURE_SHAPE_3D] = {MTLTextureType3D, "3D", MAX_EXTENT_3D, MAX_EXTENT_3D, MAX_EXTENT_3D, 1, true},
    [IRON_TEXTURE_SHAPE_CUBE] = {MTLTextureTypeCube, "cube", MAX_EXTENT, MAX_EXTENT, 1, 6, true},
    [IRON_TEXTURE_SHAPE_CUBE_ARRAY] = {MTLTextureTypeCubeArray, "cube array", MAX_EXTENT, MAX_EXTENT, MAX_LAYERS / 6,
                                       6, true},
    [IRON_TEXTURE_SHAPE_BUFFER] = {MTLTextureTypeTextureBuffer, "buffer", MAX_TEXELS_OF_BUFFER, 1, 1, 1, false},
};

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

/* Of a texture that was checked: how it lies in its buffer. */
typedef struct Rows {
  const Shape *shape;
  uint64_t width, height, slices; /* slices: planes, elements or faces */
  uint64_t texels, row, slice;    /* bytes: of a row's texels, and from one to the next */
} Rows;

static Rows rows_of(const iron_texture *texture) {
  const Format *format = format_of(texture->format);
  Rows rows = {.shape = &shapes[texture->shape], .width = texture->width};
  rows.height = texture->height ? texture->height : 1;
  rows.slices = (uint64_t)(texture->layers ? texture->layers : 1) * rows.shape->faces;
  rows.texels = rows.width * format->texel_bytes;
  rows.row = texture->row_bytes ? texture->row_bytes : rows.texels;
  rows.slice = texture->slice_bytes ? texture->slice_bytes : rows.row * rows.height;
  return rows;
}

static iron_status check_extent(const char *name, const char *extent, uint32_t value, uint32_t most) {
  uint32_t least = most > 1; /* what there is none of may be 0 */
  if (value >= least && value <= most) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %s %u, %u to %u are possible", name, extent, value, least, most);
}

static iron_status check_extents(const iron_texture *texture, const char *name) {
  const Shape *shape = &shapes[texture->shape];
  IRON_TRY(check_extent(name, "width", texture->width, shape->width));
  IRON_TRY(check_extent(name, "height", texture->height, shape->height));
  IRON_TRY(check_extent(name, "layers", texture->layers, shape->layers));
  if (shape->faces == 1 || texture->width == texture->height) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: width %u and height %u of a cube are to be equal", name,
                         texture->width, texture->height);
}

static iron_status check_strides(const Rows *rows, const Format *format, const char *name) {
  if (rows->row < rows->texels)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: row_bytes %llu, a row has %llu", name,
                           (unsigned long long)rows->row, (unsigned long long)rows->texels);
  uint64_t least = rows->row * (rows->height - 1) + rows->texels;
  if (rows->slice < least)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: slice_bytes %llu, a slice has %llu", name,
                           (unsigned long long)rows->slice, (unsigned long long)least);
  if (rows->shape->is_copied && rows->row > (uint64_t)MAX_COPIED_ROW * format->texel_bytes)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: row_bytes %llu, at most %d texels are possible", name,
                           (unsigned long long)rows->row, MAX_COPIED_ROW);
  return IRON_OK;
}

/* The multiples that a device wants of rows; 0: it has no textures. */
static uint64_t alignment_of(const Shape *shape, const Format *format, IronDevice *device) {
  MTLPixelFormat metal = (MTLPixelFormat)format->format;
  /* The software device's own answer. */
  uint64_t linear = [device->metal minimumLinearTextureAlignmentForPixelFormat:metal];
  if (linear == 0 || shape->type == MTLTextureType2D) return linear;
  if (shape->is_copied) return format->texel_bytes;
  return [device->metal minimumTextureBufferAlignmentForPixelFormat:metal];
}

iron_status IronTextureRead(const iron_argument *argument, const char *name, IronDevice *device) {
  const iron_texture *texture = argument->bytes;
  if (!texture) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL, and no iron_texture", name);
  IRON_CHECK_RESERVED(name, *texture);
  const Format *format = format_of(texture->format);
  if (!format) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: format %u is none", name, texture->format);
  if (texture->shape >= sizeof shapes / sizeof *shapes)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: shape %u is none", name, texture->shape);
  IRON_TRY(check_extents(texture, name));
  Rows rows = rows_of(texture);
  IRON_TRY(check_strides(&rows, format, name));
  uint64_t alignment = alignment_of(rows.shape, format, device);
  if (alignment == 0)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED, "%s: textures are not supported on this backend", name);
  if (argument->offset % alignment || (rows.height > 1 && rows.row % alignment) ||
      (rows.slices > 1 && rows.slice % alignment))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "%s: offset %llu, row_bytes %llu and slice_bytes %llu are to be multiples of %llu on this "
                           "device",
                           name, (unsigned long long)argument->offset, (unsigned long long)rows.row,
                           (unsigned long long)rows.slice, (unsigned long long)alignment);
  return IRON_OK;
}

bool IronTextureIsCopied(const iron_argument *argument) {
  return shapes[((const iron_texture *)argument->bytes)->shape].is_copied;
}

iron_status IronTextureFits(const iron_argument *argument, const char *name, IronBuffer *buffer) {
  Rows rows = rows_of(argument->bytes);
  uint64_t bytes = rows.slice * (rows.slices - 1) + rows.row * (rows.height - 1) + rows.texels;
  if (bytes <= buffer->length - argument->offset) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: a texture of %llu bytes, the buffer has %llu from the offset on",
                         name, (unsigned long long)bytes, (unsigned long long)(buffer->length - argument->offset));
}

iron_status IronTextureSuits(const iron_argument *argument, const char *name, uint32_t type, uint32_t value) {
  const iron_texture *texture = argument->bytes;
  const Format *format = format_of(texture->format);
  const Shape *wanted = NULL;
  for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
    if (shapes[shape].type == type) wanted = &shapes[shape];
  if (!wanted)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED, "%s: the kernel takes a texture of MTLTextureType %u, which cannot "
                           "be given", name, type);
  if (wanted != &shapes[texture->shape])
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its shape is %s, and the kernel takes %s", name,
                           shapes[texture->shape].name, wanted->name);
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

static MTLTextureDescriptor *descriptor_of(const iron_argument *argument, MTLResourceOptions options) {
  const iron_texture *texture = argument->bytes;
  Rows rows = rows_of(texture);
  MTLTextureDescriptor *descriptor = [[[MTLTextureDescriptor alloc] init] autorelease];
  [descriptor setTextureType:rows.shape->type];
  [descriptor setPixelFormat:(MTLPixelFormat)texture->format];
  [descriptor setWidth:rows.width];
  [descriptor setHeight:rows.height];
  if (rows.shape->type == MTLTextureType3D) [descriptor setDepth:rows.slices];
  else [descriptor setArrayLength:rows.slices / rows.shape->faces];
  [descriptor setResourceOptions:options];
  MTLTextureUsage usage = 0;
  if (argument->access & IRON_ACCESS_READ) usage |= MTLTextureUsageShaderRead;
  if (argument->access & IRON_ACCESS_WRITE) usage |= MTLTextureUsageShaderWrite;
  [descriptor setUsage:usage];
  return descriptor;
}

iron_status IronTextureMake(id<MTLTexture> *result, const iron_argument *argument, IronBuffer *buffer) {
  const iron_texture *texture = argument->bytes;
  Rows rows = rows_of(texture);
  id<MTLTexture> made;
  if (rows.shape->is_copied) {
    MTLTextureDescriptor *descriptor = descriptor_of(argument, MTLResourceStorageModePrivate);
    made = [[buffer->device->metal newTextureWithDescriptor:descriptor] autorelease];
  } else {
    /* A row alone may be shorter than the multiple that its length is to be. */
    uint64_t alignment = alignment_of(rows.shape, format_of(texture->format), buffer->device);
    MTLTextureDescriptor *descriptor = descriptor_of(argument, [buffer->metal resourceOptions]);
    made = [[buffer->metal newTextureWithDescriptor:descriptor
                                             offset:argument->offset
                                        bytesPerRow:(rows.row + alignment - 1) / alignment * alignment] autorelease];
  }
  if (!made) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for a texture");
  *result = made;
  return IRON_OK;
}

void IronTextureCopy(id<MTLBlitCommandEncoder> encoder, const iron_argument *argument, id<MTLTexture> texture,
                     IronBuffer *buffer, bool to_buffer) {
  Rows rows = rows_of(argument->bytes);
  bool is_solid = rows.shape->type == MTLTextureType3D;
  MTLSize size = MTLSizeMake(rows.width, rows.height, 1);
  for (uint64_t slice = 0; slice < rows.slices; slice++) {
    MTLOrigin origin = MTLOriginMake(0, 0, is_solid ? slice : 0);
    uint64_t offset = argument->offset + slice * rows.slice;
    if (to_buffer)
      [encoder copyFromTexture:texture
                       sourceSlice:is_solid ? 0 : slice
                       sourceLevel:0
                      sourceOrigin:origin
                        sourceSize:size
                          toBuffer:buffer->metal
                 destinationOffset:offset
            destinationBytesPerRow:rows.row
          destinationBytesPerImage:rows.row * rows.height];
    else
      [encoder copyFromBuffer:buffer->metal
                 sourceOffset:offset
            sourceBytesPerRow:rows.row
          sourceBytesPerImage:rows.row * rows.height
                   sourceSize:size
                    toTexture:texture
             destinationSlice:is_solid ? 0 : slice
             destinationLevel:0
            destinationOrigin:origin];
  }
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
