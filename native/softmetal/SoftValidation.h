/* What Apple's validation layer would stop the program for, this device answers with an exception whose reason names
 * the selector and the argument. Nothing has changed when one of these raises. */
#ifndef SOFT_VALIDATION_H
#define SOFT_VALIDATION_H

#import "SoftObject.h"

@class SoftBuffer, SoftDevice, SoftFunction, SoftHeap, SoftPipeline;

/* A bad argument: NSInvalidArgumentException. */
void soft_invalid(id receiver, SEL selector, NSString *format, ...) NS_FORMAT_FUNCTION(3, 4) __attribute__((noreturn));
/* A call that may not be made now: NSInternalInconsistencyException. */
void soft_inconsistent(id receiver, SEL selector, NSString *format, ...) NS_FORMAT_FUNCTION(3, 4)
    __attribute__((noreturn));

/* While a strict device lives, both end the program, as Apple's validation layer does: nothing can rely on them. */
void soft_strictness_begin(void);
void soft_strictness_end(void);
BOOL soft_is_strict(void);

/* For the bodies of methods. */
#define SOFT_REQUIRE(condition, ...) \
  do { \
    if (!(condition)) soft_invalid(self, _cmd, __VA_ARGS__); \
  } while (0)
#define SOFT_REQUIRE_STATE(condition, ...) \
  do { \
    if (!(condition)) soft_inconsistent(self, _cmd, __VA_ARGS__); \
  } while (0)

/* The argument as our own class. Raises when it is nil, of another implementation of Metal, or of another device. */
SoftBuffer *soft_require_buffer(id receiver, SEL selector, NSString *argument, id buffer, SoftDevice *device);
SoftPipeline *soft_require_pipeline(id receiver, SEL selector, NSString *argument, id pipeline, SoftDevice *device);
SoftFunction *soft_require_function(id receiver, SEL selector, NSString *argument, id function, SoftDevice *device);
SoftHeap *soft_require_heap(id receiver, SEL selector, NSString *argument, id heap, SoftDevice *device);

/* Raises unless `length` > 0 bytes from `offset` lie within `size`. */
void soft_require_range(id receiver, SEL selector, NSString *argument, NSUInteger offset, NSUInteger length,
                        NSUInteger size);

#endif
