#ifndef SOFTMETAL_MTL_FUNCTION_CONSTANT_VALUES_H
#define SOFTMETAL_MTL_FUNCTION_CONSTANT_VALUES_H

#import <Metal/MTLArgument.h>

NS_ASSUME_NONNULL_BEGIN

@interface MTLFunctionConstantValues : NSObject <NSCopying> {
@private
  NSMutableData *_constants; /* soft_constant structs, in the order they were set */
  NSMutableArray *_names;    /* keeps alive the names they point to */
}
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index;
- (void)setConstantValues:(const void *)values type:(MTLDataType)type withRange:(NSRange)range;
- (void)setConstantValue:(const void *)value type:(MTLDataType)type withName:(NSString *)name;
- (void)reset;
@end

NS_ASSUME_NONNULL_END
#endif
