#ifndef SOFTMETAL_MTL_FENCE_H
#define SOFTMETAL_MTL_FENCE_H

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLDevice;

/* Encoders of a queue run one after another on this device, so waiting for a fence takes no time. */
MTL_PROTOCOL
@protocol MTLFence <NSObject>
@property (readonly) id<MTLDevice> device;
@property (nullable, copy, atomic) NSString *label;
@end

NS_ASSUME_NONNULL_END
#endif
