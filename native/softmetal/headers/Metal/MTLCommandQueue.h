#ifndef SOFTMETAL_MTL_COMMAND_QUEUE_H
#define SOFTMETAL_MTL_COMMAND_QUEUE_H

#import <Metal/MTLCommandBuffer.h>
#import <Metal/MTLResidencySet.h>

NS_ASSUME_NONNULL_BEGIN

MTL_PROTOCOL
@protocol MTLCommandQueue <NSObject>
@property (nullable, copy, atomic) NSString *label;
@property (readonly) id<MTLDevice> device;
- (nullable id<MTLCommandBuffer>)commandBuffer;
- (nullable id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (void)addResidencySet:(id<MTLResidencySet>)residencySet;
- (void)removeResidencySet:(id<MTLResidencySet>)residencySet;
@end

NS_ASSUME_NONNULL_END
#endif
