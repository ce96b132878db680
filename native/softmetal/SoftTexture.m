#import "SoftTexture.h"

#import "SoftBuffer.h"
#import "SoftDevice.h"
#include "SoftLock.h"
#import "SoftValidation.h"

#include <inttypes.h>
#include <string.h>

/* Apple's feature set tables, of families from Apple3 and Mac2 on. */
enum { MOST_WIDTH = 16384, MOST_WIDTH_3D = 2048, MOST_ELEMENTS = 2048, MOST_TEXELS_OF_BUFFER = 1 << 28 };

@implementation SoftTexels

SOFT_COUNTED(SoftTexels)

- (NSString *)kind {
  return @"texture";
}

@end

typedef struct shape_rules {
  NSUInteger width, height, depth, elements;
  BOOL has_levels;
} shape_rules;

static BOOL rules_of(MTLTextureType type, shape_rules *rules) {
  switch (type) {
    case MTLTextureType1D: *rules = (shape_rules){MOST_WIDTH, 1, 1, 1, NO}; return YES;
    case MTLTextureType1DArray: *rules = (shape_rules){MOST_WIDTH, 1, 1, MOST_ELEMENTS, NO}; return YES;
    case MTLTextureType2D: *rules = (shape_rules){MOST_WIDTH, MOST_WIDTH, 1, 1, YES}; return YES;
    case MTLTextureType2DArray: *rules = (shape_rules){MOST_WIDTH, MOST_WIDTH, 1, MOST_ELEMENTS, YES}; return YES;
    case MTLTextureTypeCube: *rules = (shape_rules){MOST_WIDTH, MOST_WIDTH, 1, 1, YES}; return YES;
    case MTLTextureTypeCubeArray: *rules = (shape_rules){MOST_WIDTH, MOST_WIDTH, 1, MOST_ELEMENTS / 6, YES}; return YES;
    case MTLTextureType3D: *rules = (shape_rules){MOST_WIDTH_3D, MOST_WIDTH_3D, MOST_WIDTH_3D, 1, YES}; return YES;
    case MTLTextureTypeTextureBuffer: *rules = (shape_rules){MOST_TEXELS_OF_BUFFER, 1, 1, 1, NO}; return YES;
    default: return NO;
  }
}

/* Slices of an element of the array. */
static NSUInteger faces_of(MTLTextureType type) {
  return type == MTLTextureTypeCube || type == MTLTextureTypeCubeArray ? 6 : 1;
}

static NSUInteger halved(NSUInteger extent, NSUInteger level) { return extent >> level ? extent >> level : 1; }

/* Where a level begins, and its extents. */
typedef struct level_layout {
  uint64_t offset, row_bytes, slice_bytes;
  NSUInteger width, height, depth;
} level_layout;

static level_layout level_of(const soft_texture *texture, NSUInteger level) {
  level_layout found = {0,              texture->row_bytes, texture->slice_bytes,
                        texture->width, texture->height,    texture->depth};
  for (NSUInteger i = 0; i < level; i++) {
    found.offset += found.slice_bytes * found.depth * texture->array_length;
    found.width = halved(found.width, 1);
    found.height = halved(found.height, 1);
    found.depth = halved(found.depth, 1);
    found.row_bytes = found.width * texture->component_bytes * texture->components;
    found.slice_bytes = found.row_bytes * found.height;
  }
  return found;
}

@implementation SoftTexture

SOFT_COUNTED(SoftTexture)

@synthesize label = _label;

static void require_extent(id receiver, SEL selector, NSString *name, NSUInteger extent, NSUInteger most) {
  if (extent < 1 || extent > most)
    soft_invalid(receiver, selector, @"%@ (%" PRIu64 ") must be from 1 to %" PRIu64, name, (uint64_t)extent,
                 (uint64_t)most);
}

+ (soft_texture)layoutOf:(MTLTextureDescriptor *)descriptor
             bytesPerRow:(NSUInteger)bytesPerRow
                     for:(id)receiver
                selector:(SEL)selector {
  if (!descriptor) soft_invalid(receiver, selector, @"descriptor must not be nil");
  shape_rules rules;
  MTLTextureType type = descriptor.textureType;
  if (!rules_of(type, &rules))
    soft_invalid(receiver, selector,
                 @"textureType (%" PRIu64 "): multisample textures, which only rendering fills, are not supported",
                 (uint64_t)type);
  const soft_pixel_format *format = soft_pixel_format_find(descriptor.pixelFormat);
  if (!format)
    soft_invalid(receiver, selector, @"pixelFormat (%" PRIu64 ") is not supported", (uint64_t)descriptor.pixelFormat);
  require_extent(receiver, selector, @"width", descriptor.width, rules.width);
  require_extent(receiver, selector, @"height", descriptor.height, rules.height);
  require_extent(receiver, selector, @"depth", descriptor.depth, rules.depth);
  if (faces_of(type) > 1 && descriptor.width != descriptor.height)
    soft_invalid(receiver, selector, @"width (%" PRIu64 ") and height (%" PRIu64 ") of a cube must be equal",
                 (uint64_t)descriptor.width, (uint64_t)descriptor.height);
  require_extent(receiver, selector, @"arrayLength", descriptor.arrayLength, rules.elements);
  require_extent(receiver, selector, @"sampleCount", descriptor.sampleCount, 1);
  NSUInteger levels = 1, most = descriptor.width > descriptor.height ? descriptor.width : descriptor.height;
  if (descriptor.depth > most) most = descriptor.depth;
  while (rules.has_levels && !bytesPerRow && (most >>= 1)) levels++;
  require_extent(receiver, selector, @"mipmapLevelCount", descriptor.mipmapLevelCount, levels);
  NSUInteger texel = soft_texel_bytes(format), packed = texel * descriptor.width;
  if (bytesPerRow && (bytesPerRow < packed || bytesPerRow % texel))
    soft_invalid(receiver, selector,
                 @"bytesPerRow (%" PRIu64 ") must be a multiple of the texel's %" PRIu64
                 @" bytes, and at least %" PRIu64,
                 (uint64_t)bytesPerRow, (uint64_t)texel, (uint64_t)packed);
  soft_texture made = {
      .row_bytes = bytesPerRow ? bytesPerRow : packed,
      .width = (uint32_t)descriptor.width,
      .height = (uint32_t)descriptor.height,
      .depth = (uint32_t)descriptor.depth,
      .array_length = (uint32_t)(descriptor.arrayLength * faces_of(type)),
      .levels = (uint32_t)descriptor.mipmapLevelCount,
      .type = (uint32_t)type,
      .component = format->component,
      .component_bytes = format->component_bytes,
      .components = format->components,
      .is_bgra = format->is_bgra,
  };
  made.slice_bytes = made.row_bytes * made.height;
  /* The last row in a buffer needs no gap behind it. */
  made.length = bytesPerRow ? made.slice_bytes - made.row_bytes + packed : level_of(&made, made.levels).offset;
  return made;
}

- (instancetype)initWithDevice:(SoftDevice *)device
                       storage:(SoftStorage *)storage
                        buffer:(SoftBuffer *)buffer
                        layout:(soft_texture)layout
                    descriptor:(MTLTextureDescriptor *)descriptor {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _storage = [storage retain];
  _buffer = [buffer retain];
  _layout = layout;
  _layout.buffer = [storage buffer];
  _pixelFormat = descriptor.pixelFormat;
  _usage = descriptor.usage;
  _options = descriptor.resourceOptions;
  return self;
}

- (void)dealloc {
  held_locks_expect_none("a Metal texture is destroyed");
  @autoreleasepool {
    if (!_buffer) [_storage abandonAs:_label];
    [_storage release];
    [_buffer release];
    [_label release];
    [_device release];
  }
  [super dealloc];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"texture '%@' of %u x %u x %u", _label ? _label : @"", _layout.width,
                                    _layout.height, _layout.depth];
}

- (SoftStorage *)storage {
  return _storage;
}

- (const soft_texture *)layout {
  return &_layout;
}

#pragma mark Properties

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (id<MTLBuffer>)buffer {
  return (id<MTLBuffer>)_buffer;
}

- (NSUInteger)bufferOffset {
  return (NSUInteger)_layout.offset;
}

- (NSUInteger)bufferBytesPerRow {
  return _buffer ? (NSUInteger)_layout.row_bytes : 0;
}

- (MTLTextureType)textureType {
  return _layout.type;
}

- (MTLPixelFormat)pixelFormat {
  return _pixelFormat;
}

- (NSUInteger)width {
  return _layout.width;
}

- (NSUInteger)height {
  return _layout.height;
}

- (NSUInteger)depth {
  return _layout.depth;
}

- (NSUInteger)mipmapLevelCount {
  return _layout.levels;
}

- (NSUInteger)sampleCount {
  return 1;
}

- (NSUInteger)arrayLength {
  return _layout.array_length / faces_of(_layout.type);
}

- (MTLTextureUsage)usage {
  return _usage;
}

- (NSUInteger)allocatedSize {
  return [_storage allocatedSize];
}

- (MTLResourceOptions)resourceOptions {
  return _options;
}

- (MTLCPUCacheMode)cpuCacheMode {
  return (_options & MTLResourceCPUCacheModeMask) >> MTLResourceCPUCacheModeShift;
}

- (MTLStorageMode)storageMode {
  return (_options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
}

- (MTLHazardTrackingMode)hazardTrackingMode {
  MTLHazardTrackingMode mode = (_options & MTLResourceHazardTrackingModeMask) >> MTLResourceHazardTrackingModeShift;
  return mode == MTLHazardTrackingModeDefault ? MTLHazardTrackingModeTracked : mode;
}

- (id<MTLHeap>)heap {
  return [_buffer heap];
}

- (NSUInteger)heapOffset {
  return [_buffer heapOffset];
}

- (void)makeAliasable {
  SOFT_REQUIRE_STATE(_buffer, @"%@ is not of a heap", self);
  [_buffer makeAliasable];
}

- (BOOL)isAliasable {
  return [_buffer isAliasable];
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  if (_buffer) return [_buffer setPurgeableState:state];
  SOFT_REQUIRE(state >= MTLPurgeableStateKeepCurrent && state <= MTLPurgeableStateEmpty,
               @"state (%" PRIu64 ") is not an MTLPurgeableState", (uint64_t)state);
  MTLPurgeableState previous;
  SOFT_REQUIRE_STATE([_storage changeState:state previous:&previous],
                     @"%@ is used by a command buffer in flight and its contents must not go", self);
  return previous;
}

#pragma mark Texels of the host

- (unsigned char *)contentsFor:(SEL)selector {
  unsigned char *contents = [_storage contents];
  if (!contents) soft_invalid(self, selector, @"%@ is of private storage, which the host cannot reach", self);
  return contents;
}

static void copy_texels(unsigned char *contents, const soft_texel_rows *all, unsigned char *caller, BOOL to_caller) {
  for (NSUInteger z = 0; z < all->planes; z++) {
    for (NSUInteger y = 0; y < all->rows; y++) {
      unsigned char *ours = contents + all->offset + z * all->texture_slice + y * all->texture_row;
      unsigned char *theirs = caller + z * all->caller_slice + y * all->caller_row;
      memcpy(to_caller ? theirs : ours, to_caller ? ours : theirs, all->length);
    }
  }
}

- (soft_texel_rows)rowsOf:(MTLRegion)region
                    level:(NSUInteger)level
                    slice:(NSUInteger)slice
              bytesPerRow:(NSUInteger)bytesPerRow
            bytesPerImage:(NSUInteger)bytesPerImage
                      for:(id)receiver
                 selector:(SEL)selector {
  if (level >= _layout.levels)
    soft_invalid(receiver, selector, @"level (%" PRIu64 ") must be below %u", (uint64_t)level, _layout.levels);
  if (slice >= _layout.array_length)
    soft_invalid(receiver, selector, @"slice (%" PRIu64 ") must be below %u", (uint64_t)slice, _layout.array_length);
  level_layout found = level_of(&_layout, level);
  const NSUInteger first[] = {region.origin.x, region.origin.y, region.origin.z};
  const NSUInteger count[] = {region.size.width, region.size.height, region.size.depth};
  const NSUInteger extent[] = {found.width, found.height, found.depth};
  for (int i = 0; i < 3; i++) {
    if (count[i] > 0 && first[i] <= extent[i] && count[i] <= extent[i] - first[i]) continue;
    soft_invalid(receiver, selector, @"region is %" PRIu64 " from %" PRIu64 " along %c, where the level has %" PRIu64,
                 (uint64_t)count[i], (uint64_t)first[i], 'x' + i, (uint64_t)extent[i]);
  }
  NSUInteger texel = (NSUInteger)_layout.component_bytes * _layout.components, length = texel * count[0];
  if ((count[1] > 1 || bytesPerRow) && bytesPerRow < length)
    soft_invalid(receiver, selector, @"bytesPerRow (%" PRIu64 ") is less than the region's %" PRIu64, (uint64_t)bytesPerRow,
                 (uint64_t)length);
  if (count[2] > 1 && bytesPerImage < bytesPerRow * (count[1] - 1) + length)
    soft_invalid(receiver, selector, @"bytesPerImage (%" PRIu64 ") is less than the region's rows",
                 (uint64_t)bytesPerImage);
  return (soft_texel_rows){
      .offset = _layout.offset + found.offset + (slice * found.depth + first[2]) * found.slice_bytes +
                first[1] * found.row_bytes + first[0] * texel,
      .texture_row = found.row_bytes,
      .texture_slice = found.slice_bytes,
      .caller_row = bytesPerRow,
      .caller_slice = bytesPerImage,
      .length = length,
      .rows = count[1],
      .planes = count[2],
  };
}

- (void)getBytes:(void *)pixelBytes
      bytesPerRow:(NSUInteger)bytesPerRow
    bytesPerImage:(NSUInteger)bytesPerImage
       fromRegion:(MTLRegion)region
      mipmapLevel:(NSUInteger)level
            slice:(NSUInteger)slice {
  SOFT_REQUIRE(pixelBytes, @"pixelBytes must not be NULL");
  unsigned char *contents = [self contentsFor:_cmd];
  soft_texel_rows all = [self rowsOf:region
                               level:level
                               slice:slice
                         bytesPerRow:bytesPerRow
                       bytesPerImage:bytesPerImage
                                 for:self
                            selector:_cmd];
  copy_texels(contents, &all, pixelBytes, YES);
}

- (void)getBytes:(void *)pixelBytes
     bytesPerRow:(NSUInteger)bytesPerRow
      fromRegion:(MTLRegion)region
     mipmapLevel:(NSUInteger)level {
  [self getBytes:pixelBytes bytesPerRow:bytesPerRow bytesPerImage:0 fromRegion:region mipmapLevel:level slice:0];
}

- (void)replaceRegion:(MTLRegion)region
          mipmapLevel:(NSUInteger)level
                slice:(NSUInteger)slice
            withBytes:(const void *)pixelBytes
          bytesPerRow:(NSUInteger)bytesPerRow
        bytesPerImage:(NSUInteger)bytesPerImage {
  SOFT_REQUIRE(pixelBytes, @"pixelBytes must not be NULL");
  unsigned char *contents = [self contentsFor:_cmd];
  soft_texel_rows all = [self rowsOf:region
                               level:level
                               slice:slice
                         bytesPerRow:bytesPerRow
                       bytesPerImage:bytesPerImage
                                 for:self
                            selector:_cmd];
  copy_texels(contents, &all, (unsigned char *)pixelBytes, NO);
}

- (void)replaceRegion:(MTLRegion)region
          mipmapLevel:(NSUInteger)level
            withBytes:(const void *)pixelBytes
          bytesPerRow:(NSUInteger)bytesPerRow {
  [self replaceRegion:region
          mipmapLevel:level
                slice:0
            withBytes:pixelBytes
          bytesPerRow:bytesPerRow
        bytesPerImage:0];
}

@end

SoftTexture *soft_require_texture(id receiver, SEL selector, NSString *argument, id texture, SoftDevice *device) {
  if (!texture) soft_invalid(receiver, selector, @"%@ must not be nil", argument);
  if (![texture isKindOfClass:[SoftTexture class]])
    soft_invalid(receiver, selector, @"%@ is a %@ and not of the software device", argument,
                 NSStringFromClass([texture class]));
  if ((id)[texture device] != (id)device) soft_invalid(receiver, selector, @"%@ belongs to another device", argument);
  return texture;
}
