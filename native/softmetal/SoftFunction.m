#import "SoftFunction.h"

#import "SoftDevice.h"

@implementation SoftFunction

SOFT_COUNTED(SoftFunction)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device handle:(soft_function *)handle name:(NSString *)name {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _backend = [[device backend] retain];
  _handle = handle;
  _name = [name copy];
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    if (_handle) [_backend table]->function_release(_handle);
    [_backend release];
    [_name release];
    [_label release];
    [_device release];
  }
  [super dealloc];
}

- (const soft_function *)handle {
  return _handle;
}

- (soft_function_info)info {
  soft_function_info info = {0};
  [_backend table]->function_describe(_handle, &info);
  return info;
}

- (uint32_t)parameters:(soft_parameter *)parameters {
  return [_backend table]->function_parameters(_handle, parameters);
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (NSString *)name {
  return _name;
}

- (MTLFunctionType)functionType {
  return MTLFunctionTypeKernel;
}

@end
