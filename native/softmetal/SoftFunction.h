/* id<MTLFunction>: one kernel of a library, specialised by the executor. */
#ifndef SOFT_FUNCTION_H
#define SOFT_FUNCTION_H

#import "SoftObject.h"
#include "executor.h"

@class SoftDevice;

@interface SoftFunction : SoftObject <MTLFunction> {
@private
  SoftDevice *_device;
  const soft_executor *_executor;
  soft_function *_handle;
  NSString *_name;
  NSString *_label;
}
/* Takes the handle over. */
- (instancetype)initWithDevice:(SoftDevice *)device handle:(soft_function *)handle name:(NSString *)name;
- (const soft_function *)handle;
- (soft_function_info)info;
@end

#endif
