/* id<MTLFunction>: one kernel of a library, specialized by the backend. */
#ifndef SOFT_FUNCTION_H
#define SOFT_FUNCTION_H

#import "SoftBackend.h"

@class SoftDevice;

@interface SoftFunction : SoftObject <MTLFunction> {
@private
  SoftDevice *_device;
  SoftBackend *_backend;
  soft_function *_handle;
  NSString *_name;
  NSString *_label;
}
/* Takes the handle over. */
- (instancetype)initWithDevice:(SoftDevice *)device handle:(soft_function *)handle name:(NSString *)name;
- (const soft_function *)handle;
- (soft_function_info)info;
/* function_parameters of backend.h. */
- (uint32_t)parameters:(soft_parameter *)parameters;
@end

#endif
