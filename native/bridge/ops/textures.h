/* Textures and samplers of the caller's own kernels: texels in a buffer, and how they are sampled. */
#ifndef IRON_BRIDGE_TEXTURES_H
#define IRON_BRIDGE_TEXTURES_H

#import <Metal/Metal.h>

#import "device/buffer.h"

/* Whether the argument's iron_texture is one, and the device has such. */
iron_status IronTextureRead(const iron_argument *argument, const char *name, IronDevice *device);
/* Whether the kernel has a copy of the texels, and no texture over the buffer: of shapes that Metal does not make of
 * buffers. */
bool IronTextureIsCopied(const iron_argument *argument);
/* Whether its texels lie within the buffer. */
iron_status IronTextureFits(const iron_argument *argument, const char *name, IronBuffer *buffer);
/* Whether a kernel that takes an MTLTextureType of an iron_texture_value can take it. */
iron_status IronTextureSuits(const iron_argument *argument, const char *name, uint32_t type, uint32_t value);
/* Whether the argument's iron_texture_sampler is one. */
iron_status IronTextureSamplerRead(const iron_argument *argument, const char *name);

/* Of what was checked before; autoreleased. */
iron_status IronTextureMake(id<MTLTexture> *result, const iron_argument *argument, IronBuffer *buffer);
/* Of a texture that is a copy: the texels from the buffer, or back. */
void IronTextureCopy(id<MTLBlitCommandEncoder> encoder, const iron_argument *argument, id<MTLTexture> texture,
                     IronBuffer *buffer, bool to_buffer);
iron_status IronTextureSamplerMake(id<MTLSamplerState> *result, const iron_argument *argument, IronDevice *device);

#endif
