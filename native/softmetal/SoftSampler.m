#import "SoftSampler.h"

#import "SoftDevice.h"
#import "SoftValidation.h"

@implementation SoftSampler

SOFT_COUNTED(SoftSampler)

static uint8_t value_of(id receiver, SEL selector, NSString *name, NSUInteger value, NSUInteger last) {
  if (value > last) soft_invalid(receiver, selector, @"%@ (%lu) is none", name, (unsigned long)value);
  return (uint8_t)value;
}

static soft_sampler state_of(SoftDevice *device, SEL selector, MTLSamplerDescriptor *from) {
  if (!from) soft_invalid(device, selector, @"descriptor must not be nil");
  const NSUInteger modes = MTLSamplerAddressModeClampToBorderColor;
  soft_sampler state = {
      .bound = true,
      .pixels = !from.normalizedCoordinates,
      .address = {value_of(device, selector, @"sAddressMode", from.sAddressMode, modes),
                  value_of(device, selector, @"tAddressMode", from.tAddressMode, modes),
                  value_of(device, selector, @"rAddressMode", from.rAddressMode, modes)},
      .magnify = value_of(device, selector, @"magFilter", from.magFilter, MTLSamplerMinMagFilterLinear),
      .minify = value_of(device, selector, @"minFilter", from.minFilter, MTLSamplerMinMagFilterLinear),
      .mip = value_of(device, selector, @"mipFilter", from.mipFilter, MTLSamplerMipFilterLinear),
      .border = value_of(device, selector, @"borderColor", from.borderColor, MTLSamplerBorderColorOpaqueWhite),
      .compare = value_of(device, selector, @"compareFunction", from.compareFunction, MTLCompareFunctionAlways),
      .lod_min = from.lodMinClamp,
      .lod_max = from.lodMaxClamp,
  };
  if (from.maxAnisotropy < 1 || from.maxAnisotropy > 16)
    soft_invalid(device, selector, @"maxAnisotropy (%lu) must be from 1 to 16", (unsigned long)from.maxAnisotropy);
  if (!(state.lod_min >= 0 && state.lod_min <= state.lod_max))
    soft_invalid(device, selector, @"lodMinClamp (%g) must be from 0 to lodMaxClamp (%g)", state.lod_min,
                 state.lod_max);
  /* As the documentation of normalizedCoordinates says. */
  for (int i = 0; state.pixels && i < 3; i++) {
    if (state.address[i] == MTLSamplerAddressModeClampToEdge || state.address[i] >= MTLSamplerAddressModeClampToZero)
      continue;
    soft_invalid(device, selector, @"address modes that repeat need normalizedCoordinates");
  }
  return state;
}

- (instancetype)initWithDevice:(SoftDevice *)device descriptor:(MTLSamplerDescriptor *)descriptor for:(SEL)selector {
  self = [super init];
  if (!self) return nil;
  @try {
    _state = state_of(device, selector, descriptor);
  } @catch (id exception) {
    [self release];
    @throw;
  }
  _device = [device retain];
  _label = [descriptor.label copy];
  return self;
}

- (void)dealloc {
  [_label release];
  [_device release];
  [super dealloc];
}

- (NSString *)label {
  return _label;
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (const soft_sampler *)state {
  return &_state;
}

@end

SoftSampler *soft_require_sampler(id receiver, SEL selector, id sampler, SoftDevice *device) {
  if (![sampler isKindOfClass:[SoftSampler class]] || (id)[sampler device] != (id)device)
    soft_invalid(receiver, selector, @"sampler (%@) is not of this device", sampler);
  return sampler;
}
