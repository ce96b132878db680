#import "SoftConstants.h"

#import "SoftError.h"

#if defined(__APPLE__) || defined(IRON_TEST_AS_MAC)

NSData *soft_constants(MTLFunctionConstantValues *values, NSError **error) {
  (void)values;
  if (error) {
    *error = soft_library_error(MTLLibraryErrorUnsupported,
                                @"the software device cannot read function constants out of Apple's class");
  }
  return nil;
}

#else

#include <string.h>

/* Bytes of a value of that type in MSL, 0 for a type that no constant can have. Three-element vectors take the room of
 * four. */
static NSUInteger size_of(MTLDataType type) {
  static const struct {
    MTLDataType scalar;
    NSUInteger size;
  } families[] = {
      {MTLDataTypeFloat, 4},  {MTLDataTypeHalf, 2}, {MTLDataTypeInt, 4},   {MTLDataTypeUInt, 4}, {MTLDataTypeShort, 2},
      {MTLDataTypeUShort, 2}, {MTLDataTypeChar, 1}, {MTLDataTypeUChar, 1}, {MTLDataTypeBool, 1}, {MTLDataTypeLong, 8},
      {MTLDataTypeULong, 8},  {MTLDataTypeBFloat, 2},
  };
  static const NSUInteger elements[] = {1, 2, 4, 4};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (type >= families[i].scalar && type < families[i].scalar + 4) {
      return families[i].size * elements[type - families[i].scalar];
    }
  }
  return 0;
}

static void require_type(MTLDataType type) {
  if (size_of(type)) return;
  [NSException raise:NSInvalidArgumentException
              format:@"MTLFunctionConstantValues: type (%lu) is not that of a function constant", (unsigned long)type];
}

static live_objects_class counted = {.name = "MTLFunctionConstantValues"};

@implementation MTLFunctionConstantValues

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  _constants = [NSMutableData new];
  _names = [NSMutableArray new];
  live_objects_add(&counted);
  return self;
}

- (void)dealloc {
  [_constants release];
  [_names release];
  live_objects_remove(&counted);
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLFunctionConstantValues *copy = [[[self class] allocWithZone:zone] init];
  [copy->_constants setData:_constants];
  [copy->_names setArray:_names];
  return copy;
}

/* A later value for the same index or name takes the place of the earlier one. */
- (void)add:(soft_constant)constant {
  soft_constant *constants = [_constants mutableBytes];
  for (NSUInteger i = 0; i < [_constants length] / sizeof *constants; i++) {
    const char *name = constants[i].name;
    BOOL same = constant.name ? name && strcmp(name, constant.name) == 0
                              : !name && constants[i].index == constant.index;
    if (same) {
      constants[i] = constant;
      return;
    }
  }
  [_constants appendBytes:&constant length:sizeof constant];
}

- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index {
  require_type(type);
  soft_constant constant = {.index = (uint32_t)index, .type = (uint32_t)type};
  memcpy(constant.value, value, size_of(type));
  [self add:constant];
}

- (void)setConstantValues:(const void *)values type:(MTLDataType)type withRange:(NSRange)range {
  require_type(type);
  for (NSUInteger i = 0; i < range.length; i++) {
    [self setConstantValue:(const char *)values + i * size_of(type) type:type atIndex:range.location + i];
  }
}

- (void)setConstantValue:(const void *)value type:(MTLDataType)type withName:(NSString *)name {
  require_type(type);
  const char *text = [name UTF8String];
  NSData *kept = [NSData dataWithBytes:text length:strlen(text) + 1];
  [_names addObject:kept];
  soft_constant constant = {.name = [kept bytes], .type = (uint32_t)type};
  memcpy(constant.value, value, size_of(type));
  [self add:constant];
}

- (void)reset {
  [_constants setLength:0];
  [_names removeAllObjects];
}

- (NSData *)softConstants {
  return _constants;
}

@end

NSData *soft_constants(MTLFunctionConstantValues *values, NSError **error) {
  (void)error;
  return [NSData dataWithData:[values softConstants]];
}

#endif
