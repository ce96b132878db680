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

/* What a kernel wants bound, as the pipeline's reflection has it. */
typedef struct IronParameter {
  uint32_t index;
  bool threadgroup; /* memory of a length; else a buffer or bytes */
  uint64_t size;    /* the least bytes */
  uint64_t alignment;
} IronParameter;

@interface IronKernel : IronObject {
 @public
  IronDevice *device;
  id<MTLComputePipelineState> state;
  /* From malloc. A device without reflection has none, and finds out itself what is missing. */
  IronParameter *parameters;
  size_t parameter_count;
  bool reflected;
}
@end

#endif
