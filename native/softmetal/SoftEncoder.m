#import "SoftEncoder.h"

#import "SoftFence.h"
#import "SoftValidation.h"

@implementation SoftEncoder

@synthesize label = _label;

- (instancetype)initWithCommandBuffer:(SoftCommandBuffer *)commandBuffer {
  self = [super init];
  if (!self) return nil;
  _commandBuffer = [commandBuffer retain];
  _softDevice = [commandBuffer softDevice];
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    if (!_ended) [_commandBuffer encoderWasLost:self];
    [_label release];
    [_commandBuffer release];
  }
  [super dealloc];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"%@ '%@'", NSStringFromClass([self class]), _label ? _label : @""];
}

- (SoftDevice *)softDevice {
  return _softDevice;
}

- (id<MTLDevice>)device {
  return [_commandBuffer device];
}

- (void)requireOpen:(SEL)selector {
  if (_ended) soft_inconsistent(self, selector, @"%@ has ended", self);
}

- (void)endEncoding {
  [self requireOpen:_cmd];
  _ended = YES;
  [_commandBuffer encoderDidEnd:self];
}

- (void)requireFence:(id)fence for:(SEL)selector {
  [self requireOpen:selector];
  if (![fence isKindOfClass:[SoftFence class]] || [fence device] != [self device])
    soft_invalid(self, selector, @"fence (%@) is not of this device", fence);
}

- (void)updateFence:(id<MTLFence>)fence {
  [self requireFence:fence for:_cmd];
}

- (void)waitForFence:(id<MTLFence>)fence {
  [self requireFence:fence for:_cmd];
}

- (void)insertDebugSignpost:(NSString *)string {
  SOFT_REQUIRE(string, @"string must not be nil");
  [self requireOpen:_cmd];
}

- (void)pushDebugGroup:(NSString *)string {
  SOFT_REQUIRE(string, @"string must not be nil");
  [self requireOpen:_cmd];
  _debugGroups++;
}

- (void)popDebugGroup {
  [self requireOpen:_cmd];
  SOFT_REQUIRE_STATE(_debugGroups > 0, @"no debug group is open");
  _debugGroups--;
}

@end
