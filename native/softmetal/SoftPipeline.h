/* id<MTLComputePipelineState>. */
#ifndef SOFT_PIPELINE_H
#define SOFT_PIPELINE_H

#import "SoftFunction.h"
#import "SoftReferent.h"

/* What commands refer to: the function that a pipeline runs. */
@interface SoftKernel : SoftReferent {
@package
  SoftFunction *_function;
  const soft_function *_handle; /* the function's */
  soft_function_info _info;
}
- (instancetype)initWithFunction:(SoftFunction *)function;
- (SoftFunction *)function;
@end

@interface SoftPipeline : SoftObject <MTLComputePipelineState> {
@package
  SoftDevice *_device;
@private
  SoftKernel *_kernel;
}
- (instancetype)initWithDevice:(SoftDevice *)device function:(SoftFunction *)function;
- (SoftKernel *)kernel;
@end

#endif
