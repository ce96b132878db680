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
  iron_argument_kind kind; /* BUFFER: bytes fit, too */
  uint64_t size;           /* the least bytes */
  uint64_t alignment;
  uint32_t access;        /* iron_access */
  uint32_t texture_type;  /* MTLTextureType */
  uint32_t texture_value; /* iron_texture_value */
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
