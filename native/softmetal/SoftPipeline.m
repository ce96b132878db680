#import "SoftPipeline.h"

#import "SoftDevice.h"

@implementation SoftKernel

SOFT_COUNTED(SoftKernel)

- (instancetype)initWithFunction:(SoftFunction *)function {
  self = [super init];
  if (self) _function = [function retain];
  return self;
}

- (void)dealloc {
  [_function release];
  [super dealloc];
}

- (NSString *)kind {
  return @"pipeline";
}

- (SoftFunction *)function {
  return _function;
}

@end

@implementation SoftPipeline

SOFT_COUNTED(SoftPipeline)

- (instancetype)initWithDevice:(SoftDevice *)device function:(SoftFunction *)function {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _kernel = [[SoftKernel alloc] initWithFunction:function];
  _info = [function info];
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    [_kernel abandonAs:[[_kernel function] name]];
    [_kernel release];
    [_device release];
  }
  [super dealloc];
}

- (SoftKernel *)kernel {
  return _kernel;
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (NSString *)label {
  return nil; /* only a pipeline descriptor sets one */
}

- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return _info.max_total_threads_per_threadgroup;
}

- (NSUInteger)threadExecutionWidth {
  NSUInteger presented = [_device presentedSimdWidth];
  return presented ? presented : _info.thread_execution_width;
}

- (NSUInteger)staticThreadgroupMemoryLength {
  return _info.static_threadgroup_memory;
}

@end
