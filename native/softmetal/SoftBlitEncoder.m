#import "SoftBlitEncoder.h"

#import "SoftBuffer.h"
#import "SoftTexture.h"
#import "SoftValidation.h"

#include <inttypes.h>

/* macOS copies and fills in units of four bytes (documentation of both methods). */
static const NSUInteger unit = 4;

@implementation SoftBlitEncoder

SOFT_COUNTED(SoftBlitEncoder)

- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  [self requireOpen:_cmd];
  SoftBuffer *source = soft_require_buffer(self, _cmd, @"sourceBuffer", sourceBuffer, [self softDevice]);
  SoftBuffer *destination = soft_require_buffer(self, _cmd, @"destinationBuffer", destinationBuffer, [self softDevice]);
  soft_require_range(self, _cmd, @"the source", sourceOffset, size, source.length);
  soft_require_range(self, _cmd, @"the destination", destinationOffset, size, destination.length);
  SOFT_REQUIRE(sourceOffset % unit == 0, @"sourceOffset (%" PRIu64 ") is not a multiple of 4", (uint64_t)sourceOffset);
  SOFT_REQUIRE(destinationOffset % unit == 0, @"destinationOffset (%" PRIu64 ") is not a multiple of 4",
               (uint64_t)destinationOffset);
  SOFT_REQUIRE(size % unit == 0, @"size (%" PRIu64 ") is not a multiple of 4", (uint64_t)size);
  NSUInteger distance =
      sourceOffset > destinationOffset ? sourceOffset - destinationOffset : destinationOffset - sourceOffset;
  SOFT_REQUIRE(source != destination || distance >= size, @"the source and the destination overlap in %@", source);
  soft_command_buffer_use(_commandBuffer, _cmd, [source storage], source);
  soft_command_buffer_use(_commandBuffer, _cmd, [destination storage], destination);
  soft_command *command = [_commandBuffer addCommandFor:_cmd];
  command->kind = SOFT_COPY;
  command->copy = (soft_copy){.source = [[source storage] buffer],
                              .destination = [[destination storage] buffer],
                              .source_offset = sourceOffset,
                              .destination_offset = destinationOffset,
                              .length = size};
}

/* A command for each run of bytes that has no gap on either side. */
- (void)copyTexels:(const soft_texel_rows *)all
         ofTexture:(SoftTexture *)texture
            buffer:(SoftBuffer *)buffer
            offset:(uint64_t)offset
          toBuffer:(BOOL)to_buffer
               for:(SEL)selector {
  soft_command_buffer_use(_commandBuffer, selector, [buffer storage], buffer);
  soft_command_buffer_use(_commandBuffer, selector, [texture storage], texture);
  soft_copy run = {.length = 0};
  for (NSUInteger z = 0; z < all->planes; z++) {
    for (NSUInteger y = 0; y < all->rows; y++) {
      uint64_t there = all->offset + z * all->texture_slice + y * all->texture_row;
      uint64_t here = offset + z * all->caller_slice + y * all->caller_row;
      uint64_t from = to_buffer ? there : here, to = to_buffer ? here : there;
      if (run.length && from == run.source_offset + run.length && to == run.destination_offset + run.length) {
        run.length += all->length;
        continue;
      }
      [self addCopy:&run for:selector];
      run = (soft_copy){.source = to_buffer ? [[texture storage] buffer] : [[buffer storage] buffer],
                        .destination = to_buffer ? [[buffer storage] buffer] : [[texture storage] buffer],
                        .source_offset = from,
                        .destination_offset = to,
                        .length = all->length};
    }
  }
  [self addCopy:&run for:selector];
}

- (void)addCopy:(const soft_copy *)copy for:(SEL)selector {
  if (!copy->length) return;
  soft_command *command = [_commandBuffer addCommandFor:selector];
  command->kind = SOFT_COPY;
  command->copy = *copy;
}

/* Checks a region of a texture and the bytes beside it, and copies. */
- (void)copyRegion:(MTLRegion)region
         ofTexture:(id<MTLTexture>)given
             named:(NSString *)name
             slice:(NSUInteger)slice
             level:(NSUInteger)level
            buffer:(id<MTLBuffer>)bytes
             named:(NSString *)bytesName
            offset:(NSUInteger)offset
       bytesPerRow:(NSUInteger)bytesPerRow
     bytesPerImage:(NSUInteger)bytesPerImage
          toBuffer:(BOOL)to_buffer
               for:(SEL)selector {
  [self requireOpen:selector];
  SoftTexture *texture = soft_require_texture(self, selector, name, given, [self softDevice]);
  SoftBuffer *buffer = soft_require_buffer(self, selector, bytesName, bytes, [self softDevice]);
  const soft_texture *layout = [texture layout];
  NSUInteger texel = (NSUInteger)layout->component_bytes * layout->components;
  if (offset % texel || bytesPerRow % texel || bytesPerImage % texel)
    soft_invalid(self, selector,
                 @"the offset (%" PRIu64 "), bytesPerRow (%" PRIu64 ") and bytesPerImage (%" PRIu64
                 ") must be multiples of the texel's %" PRIu64 " bytes",
                 (uint64_t)offset, (uint64_t)bytesPerRow, (uint64_t)bytesPerImage, (uint64_t)texel);
  soft_texel_rows all = [texture rowsOf:region
                                  level:level
                                  slice:slice
                            bytesPerRow:bytesPerRow
                          bytesPerImage:bytesPerImage
                                    for:self
                               selector:selector];
  /* So that the last byte's number fits into 64 bits. */
  uint64_t most = buffer.length;
  if ((all.rows > 1 && bytesPerRow > most) || (all.planes > 1 && bytesPerImage > most))
    soft_invalid(self, selector, @"bytesPerRow (%" PRIu64 ") and bytesPerImage (%" PRIu64 ") lead outside %@",
                 (uint64_t)bytesPerRow, (uint64_t)bytesPerImage, buffer);
  uint64_t length = (all.planes - 1) * all.caller_slice + (all.rows - 1) * all.caller_row + all.length;
  soft_require_range(self, selector, @"the region", offset, (NSUInteger)length, (NSUInteger)most);
  if ([texture storage] == [buffer storage])
    soft_invalid(self, selector, @"%@ lies in %@ itself", texture, buffer);
  [self copyTexels:&all ofTexture:texture buffer:buffer offset:offset toBuffer:to_buffer for:selector];
}

- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
     sourceBytesPerRow:(NSUInteger)sourceBytesPerRow
   sourceBytesPerImage:(NSUInteger)sourceBytesPerImage
            sourceSize:(MTLSize)sourceSize
             toTexture:(id<MTLTexture>)destinationTexture
      destinationSlice:(NSUInteger)destinationSlice
      destinationLevel:(NSUInteger)destinationLevel
     destinationOrigin:(MTLOrigin)destinationOrigin {
  [self copyRegion:(MTLRegion){destinationOrigin, sourceSize}
         ofTexture:destinationTexture
             named:@"destinationTexture"
             slice:destinationSlice
             level:destinationLevel
            buffer:sourceBuffer
             named:@"sourceBuffer"
            offset:sourceOffset
       bytesPerRow:sourceBytesPerRow
     bytesPerImage:sourceBytesPerImage
          toBuffer:NO
               for:_cmd];
}

- (void)copyFromTexture:(id<MTLTexture>)sourceTexture
               sourceSlice:(NSUInteger)sourceSlice
               sourceLevel:(NSUInteger)sourceLevel
              sourceOrigin:(MTLOrigin)sourceOrigin
                sourceSize:(MTLSize)sourceSize
                  toBuffer:(id<MTLBuffer>)destinationBuffer
         destinationOffset:(NSUInteger)destinationOffset
    destinationBytesPerRow:(NSUInteger)destinationBytesPerRow
  destinationBytesPerImage:(NSUInteger)destinationBytesPerImage {
  [self copyRegion:(MTLRegion){sourceOrigin, sourceSize}
         ofTexture:sourceTexture
             named:@"sourceTexture"
             slice:sourceSlice
             level:sourceLevel
            buffer:destinationBuffer
             named:@"destinationBuffer"
            offset:destinationOffset
       bytesPerRow:destinationBytesPerRow
     bytesPerImage:destinationBytesPerImage
          toBuffer:YES
               for:_cmd];
}

- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  [self requireOpen:_cmd];
  SoftBuffer *filled = soft_require_buffer(self, _cmd, @"buffer", buffer, [self softDevice]);
  soft_require_range(self, _cmd, @"range", range.location, range.length, filled.length);
  SOFT_REQUIRE(range.location % unit == 0, @"range.location (%" PRIu64 ") is not a multiple of 4",
               (uint64_t)range.location);
  SOFT_REQUIRE(range.length % unit == 0, @"range.length (%" PRIu64 ") is not a multiple of 4", (uint64_t)range.length);
  soft_command_buffer_use(_commandBuffer, _cmd, [filled storage], filled);
  soft_command *command = [_commandBuffer addCommandFor:_cmd];
  command->kind = SOFT_FILL;
  command->fill = (soft_fill){.destination = [[filled storage] buffer],
                              .offset = range.location,
                              .length = range.length,
                              .value = value};
}

- (void)synchronizeResource:(id<MTLResource>)resource {
  [self requireOpen:_cmd];
  SoftBuffer *buffer = soft_require_buffer(self, _cmd, @"resource", resource, [self softDevice]);
  SOFT_REQUIRE(buffer.storageMode == MTLStorageModeManaged, @"resource (%@) is not of managed storage", buffer);
  soft_command_buffer_use(_commandBuffer, _cmd, [buffer storage], buffer);
}

@end
