#import "SoftPipeline.h"

#import "SoftDevice.h"

@implementation SoftKernel

SOFT_COUNTED(SoftKernel)

- (instancetype)initWithFunction:(SoftFunction *)function {
  self = [super init];
  if (!self) return nil;
  _function = [function retain];
  _handle = [function handle];
  _info = [function info];
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
  if (_kernel) return self;
  [self release];
  return nil;
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
  return _kernel->_info.max_total_threads_per_threadgroup;
}

- (NSUInteger)threadExecutionWidth {
  NSUInteger presented = [_device presentedSimdWidth];
  return presented ? presented : _kernel->_info.thread_execution_width;
}

- (NSUInteger)staticThreadgroupMemoryLength {
  return _kernel->_info.static_threadgroup_memory;
}

@end
