/* id<MTLSamplerState>. */
#ifndef SOFT_SAMPLER_H
#define SOFT_SAMPLER_H

#import "SoftObject.h"
#include "backend.h"

@class SoftDevice;

@interface SoftSampler : SoftObject <MTLSamplerState> {
@private
  SoftDevice *_device;
  NSString *_label;
  soft_sampler _state;
}
/* Raises, in the name of a method of the device, when the descriptor's values are none. */
- (instancetype)initWithDevice:(SoftDevice *)device descriptor:(MTLSamplerDescriptor *)descriptor for:(SEL)selector;
- (const soft_sampler *)state;
@end

SoftSampler *soft_require_sampler(id receiver, SEL selector, id sampler, SoftDevice *device);

#endif
