/* id<MTLTexture>: a shape and a format over memory, its own or a buffer's. */
#ifndef SOFT_TEXTURE_H
#define SOFT_TEXTURE_H

#import "SoftPixelFormat.h"
#import "SoftStorage.h"

@class SoftBuffer, SoftDevice;

/* A texture's own memory. */
@interface SoftTexels : SoftStorage
@end

/* Rows of texels of a region: where they lie in the texture's memory, and beside it with the caller. */
typedef struct soft_texel_rows {
  uint64_t offset; /* of the first one in the storage */
  uint64_t texture_row, texture_slice, caller_row, caller_slice, length;
  NSUInteger rows, planes;
} soft_texel_rows;

@interface SoftTexture : SoftObject <MTLTexture> {
@private
  SoftDevice *_device;
  SoftStorage *_storage;
  SoftBuffer *_buffer; /* whose memory it is, or nil */
  soft_texture _layout;
  MTLPixelFormat _pixelFormat;
  MTLTextureUsage _usage;
  MTLResourceOptions _options;
  NSString *_label;
}
/* Whether the descriptor describes a texture, and how its texels then lie; raises when it does not. `bytesPerRow`: of
 * rows in a buffer; 0: rows have no gaps. */
+ (soft_texture)layoutOf:(MTLTextureDescriptor *)descriptor
             bytesPerRow:(NSUInteger)bytesPerRow
                     for:(id)receiver
                selector:(SEL)selector;
/* `buffer`: nil when the storage is the texture's own. */
- (instancetype)initWithDevice:(SoftDevice *)device
                       storage:(SoftStorage *)storage
                        buffer:(SoftBuffer *)buffer
                        layout:(soft_texture)layout
                    descriptor:(MTLTextureDescriptor *)descriptor;
/* What commands use. */
- (SoftStorage *)storage;
- (const soft_texture *)layout;
/* The rows of a region of one slice, as a caller has them `bytesPerRow` and `bytesPerImage` apart. Raises as `selector`
 * of `receiver` when there are no such. */
- (soft_texel_rows)rowsOf:(MTLRegion)region
                    level:(NSUInteger)level
                    slice:(NSUInteger)slice
              bytesPerRow:(NSUInteger)bytesPerRow
            bytesPerImage:(NSUInteger)bytesPerImage
                      for:(id)receiver
                 selector:(SEL)selector;
@end

/* Raises unless the object is a texture of this device. */
SoftTexture *soft_require_texture(id receiver, SEL selector, NSString *argument, id texture, SoftDevice *device);

#endif
