/* id<MTLFence>: what it would keep in order is in order. */
#ifndef SOFT_FENCE_H
#define SOFT_FENCE_H

#import "SoftDevice.h"

@interface SoftFence : SoftObject <MTLFence> {
@private
  SoftDevice *_device;
  NSString *_label;
}
- (instancetype)initWithDevice:(SoftDevice *)device;
@end

#endif
