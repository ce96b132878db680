/* Libraries and kernels that the caller brings as Metal source. */
#ifndef IRON_BRIDGE_USER_KERNEL_H
#define IRON_BRIDGE_USER_KERNEL_H

#import <Metal/Metal.h>

#import "device/device.h"
#import "base/object.h"

@interface IronLibrary : IronObject {
 @public
  IronDevice *device;
  id<MTLLibrary> metal;
}
@end

@interface IronKernel : IronObject {
 @public
  IronDevice *device;
  id<MTLComputePipelineState> state;
}
@end

#endif
