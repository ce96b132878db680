/* id<MTLComputePipelineState>. */
#ifndef SOFT_PIPELINE_H
#define SOFT_PIPELINE_H

#import "SoftFunction.h"
#import "SoftReferent.h"

/* What commands refer to: the function that a pipeline runs. */
@interface SoftKernel : SoftReferent {
@private
  SoftFunction *_function;
}
- (instancetype)initWithFunction:(SoftFunction *)function;
- (SoftFunction *)function;
@end

@interface SoftPipeline : SoftObject <MTLComputePipelineState> {
@private
  SoftDevice *_device;
  SoftKernel *_kernel;
  soft_function_info _info;
}
- (instancetype)initWithDevice:(SoftDevice *)device function:(SoftFunction *)function;
- (SoftKernel *)kernel;
@end

#endif
