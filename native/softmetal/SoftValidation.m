#import "SoftValidation.h"

#import "SoftBuffer.h"
#import "SoftFunction.h"
#import "SoftHeap.h"
#include "SoftLock.h"
#import "SoftPipeline.h"

#include <objc/runtime.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void throw_exception(NSString *name, id receiver, SEL selector, NSString *format, va_list arguments)
    __attribute__((noreturn));

static atomic_int strict_devices;

void soft_strictness_begin(void) { atomic_fetch_add(&strict_devices, 1); }

BOOL soft_is_strict(void) { return atomic_load(&strict_devices) > 0; }

void soft_strictness_end(void) { atomic_fetch_sub(&strict_devices, 1); }

static void throw_exception(NSString *name, id receiver, SEL selector, NSString *format, va_list arguments) {
  held_locks_expect_none("an exception is raised");
  NSString *text = [[[NSString alloc] initWithFormat:format arguments:arguments] autorelease];
  NSString *where = [NSString stringWithFormat:@"-[%@ %@]", NSStringFromClass([receiver class]),
                                               NSStringFromSelector(selector)];
  if (soft_is_strict()) {
    fprintf(stderr, "software device: %s: failed assertion: %s\n", [where UTF8String], [text UTF8String]);
    abort();
  }
  @throw [NSException exceptionWithName:name reason:[NSString stringWithFormat:@"%@: %@", where, text] userInfo:nil];
}

void soft_invalid(id receiver, SEL selector, NSString *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  throw_exception(NSInvalidArgumentException, receiver, selector, format, arguments);
}

void soft_inconsistent(id receiver, SEL selector, NSString *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  throw_exception(NSInternalInconsistencyException, receiver, selector, format, arguments);
}

static id require_object(id receiver, SEL selector, NSString *argument, id object, Class class, SoftDevice *device) {
  if (!object) soft_invalid(receiver, selector, @"%@ must not be nil", argument);
  if (![object isKindOfClass:class]) {
    soft_invalid(receiver, selector, @"%@ is a %@ and not of the software device", argument,
                 NSStringFromClass([object class]));
  }
  if ((id)[object device] != (id)device) soft_invalid(receiver, selector, @"%@ belongs to another device", argument);
  return object;
}

/* For every argument of every operation. GCC's runtime looks a class up by its name wherever it is named, so it is kept
 * here; and the usual case needs no message. */
SoftBuffer *soft_require_buffer(id receiver, SEL selector, NSString *argument, id buffer, SoftDevice *device) {
  static _Atomic(Class) known;
  if (!known) known = [SoftBuffer class];
  if (buffer && object_getClass(buffer) == known && ((SoftBuffer *)buffer)->_device == device) return buffer;
  return require_object(receiver, selector, argument, buffer, known, device);
}

SoftPipeline *soft_require_pipeline(id receiver, SEL selector, NSString *argument, id pipeline, SoftDevice *device) {
  static _Atomic(Class) known;
  if (!known) known = [SoftPipeline class];
  if (pipeline && object_getClass(pipeline) == known && ((SoftPipeline *)pipeline)->_device == device) return pipeline;
  return require_object(receiver, selector, argument, pipeline, known, device);
}

SoftFunction *soft_require_function(id receiver, SEL selector, NSString *argument, id function, SoftDevice *device) {
  return require_object(receiver, selector, argument, function, [SoftFunction class], device);
}

SoftHeap *soft_require_heap(id receiver, SEL selector, NSString *argument, id heap, SoftDevice *device) {
  return require_object(receiver, selector, argument, heap, [SoftHeap class], device);
}

void soft_require_range(id receiver, SEL selector, NSString *argument, NSUInteger offset, NSUInteger length,
                        NSUInteger size) {
  if (length == 0) soft_invalid(receiver, selector, @"%@ is empty", argument);
  if (offset > size || length > size - offset) {
    soft_invalid(receiver, selector, @"%@ is %llu bytes from %llu, outside a buffer of %llu bytes", argument,
                 (unsigned long long)length, (unsigned long long)offset, (unsigned long long)size);
  }
}
