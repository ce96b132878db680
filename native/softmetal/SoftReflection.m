#import "SoftReflection.h"

@implementation SoftBinding

SOFT_COUNTED(SoftBinding)

- (instancetype)initWithParameter:(soft_parameter)parameter {
  self = [super init];
  if (self) _parameter = parameter;
  return self;
}

- (NSString *)name {
  static const char *const names[] = {"buffer", "threadgroup", "texture", "sampler"};
  return [NSString stringWithFormat:@"%s(%u)", names[_parameter.kind], _parameter.index];
}

- (MTLBindingType)type {
  static const MTLBindingType types[] = {MTLBindingTypeBuffer, MTLBindingTypeThreadgroupMemory, MTLBindingTypeTexture,
                                         MTLBindingTypeSampler};
  return types[_parameter.kind];
}

- (MTLBindingAccess)access {
  if (!_parameter.writable) return MTLBindingAccessReadOnly;
  return _parameter.readable ? MTLBindingAccessReadWrite : MTLBindingAccessWriteOnly;
}

- (NSUInteger)index {
  return _parameter.index;
}

- (BOOL)isUsed {
  return YES;
}

- (BOOL)isArgument {
  return YES;
}

- (NSUInteger)bufferAlignment {
  return (NSUInteger)_parameter.alignment;
}

- (NSUInteger)bufferDataSize {
  return (NSUInteger)_parameter.size;
}

- (MTLTextureType)textureType {
  return _parameter.texture_type;
}

- (MTLDataType)textureDataType {
  static const MTLDataType types[] = {MTLDataTypeFloat, MTLDataTypeUInt, MTLDataTypeInt};
  return types[_parameter.value];
}

- (BOOL)isDepthTexture {
  return NO;
}

/* Each of an array is a binding of its own. */
- (NSUInteger)arrayLength {
  return 1;
}

- (NSUInteger)threadgroupMemoryAlignment {
  return (NSUInteger)_parameter.alignment;
}

- (NSUInteger)threadgroupMemoryDataSize {
  return (NSUInteger)_parameter.size;
}

@end

@implementation SoftReflection

SOFT_COUNTED(SoftReflection)

- (instancetype)initWithFunction:(SoftFunction *)function {
  self = [super init];
  if (!self) return nil;
  soft_parameter parameters[SOFT_MAX_PARAMETERS];
  uint32_t count = [function parameters:parameters];
  if (count == SOFT_UNKNOWN) {
    [self release];
    return nil;
  }
  NSMutableArray *bindings = [NSMutableArray array];
  for (uint32_t index = 0; index < count; index++)
    [bindings addObject:[[[SoftBinding alloc] initWithParameter:parameters[index]] autorelease]];
  _bindings = [bindings copy];
  return self;
}

- (void)dealloc {
  [_bindings release];
  [super dealloc];
}

- (NSArray *)bindings {
  return _bindings;
}

@end
