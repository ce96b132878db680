#import "SoftFence.h"

@implementation SoftFence

SOFT_COUNTED(SoftFence)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device {
  self = [super init];
  if (self) _device = [device retain];
  return self;
}

- (void)dealloc {
  [_label release];
  [_device release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

@end
