/* MTLComputePipelineReflection: what a kernel wants bound, where the backend knows. */
#ifndef SOFT_REFLECTION_H
#define SOFT_REFLECTION_H

#import "SoftFunction.h"

@interface SoftBinding : SoftObject <MTLBufferBinding, MTLThreadgroupBinding, MTLTextureBinding> {
@private
  soft_parameter _parameter;
}
- (instancetype)initWithParameter:(soft_parameter)parameter;
@end

@interface SoftReflection : SoftObject {
@private
  NSArray *_bindings;
}
/* nil where the backend does not know. */
- (instancetype)initWithFunction:(SoftFunction *)function;
- (NSArray *)bindings;
@end

#endif
