#ifndef SOFTMETAL_MTL_BLIT_COMMAND_ENCODER_H
#define SOFTMETAL_MTL_BLIT_COMMAND_ENCODER_H

#import <Metal/MTLBuffer.h>
#import <Metal/MTLCommandEncoder.h>
#import <Metal/MTLTypes.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLFence, MTLTexture;

MTL_PROTOCOL
@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
- (void)synchronizeResource:(id<MTLResource>)resource;
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value;
- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size;
- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
     sourceBytesPerRow:(NSUInteger)sourceBytesPerRow
   sourceBytesPerImage:(NSUInteger)sourceBytesPerImage
            sourceSize:(MTLSize)sourceSize
             toTexture:(id<MTLTexture>)destinationTexture
      destinationSlice:(NSUInteger)destinationSlice
      destinationLevel:(NSUInteger)destinationLevel
     destinationOrigin:(MTLOrigin)destinationOrigin;
- (void)copyFromTexture:(id<MTLTexture>)sourceTexture
               sourceSlice:(NSUInteger)sourceSlice
               sourceLevel:(NSUInteger)sourceLevel
              sourceOrigin:(MTLOrigin)sourceOrigin
                sourceSize:(MTLSize)sourceSize
                  toBuffer:(id<MTLBuffer>)destinationBuffer
         destinationOffset:(NSUInteger)destinationOffset
    destinationBytesPerRow:(NSUInteger)destinationBytesPerRow
  destinationBytesPerImage:(NSUInteger)destinationBytesPerImage;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

NS_ASSUME_NONNULL_END
#endif
