#ifndef SOFTMETAL_MTL_BUFFER_H
#define SOFTMETAL_MTL_BUFFER_H

#import <Metal/MTLResource.h>
#import <Metal/MTLTexture.h>

NS_ASSUME_NONNULL_BEGIN

MTL_PROTOCOL
@protocol MTLBuffer <MTLResource>
@property (readonly) NSUInteger length;
@property (readonly) uint64_t gpuAddress;
- (void *)contents NS_RETURNS_INNER_POINTER;
- (void)didModifyRange:(NSRange)range;
- (nullable id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor *)descriptor
                                             offset:(NSUInteger)offset
                                        bytesPerRow:(NSUInteger)bytesPerRow;
@end

NS_ASSUME_NONNULL_END
#endif
