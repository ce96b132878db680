#import "error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "held_locks.h"

enum { SHORT_MESSAGE = 1024 }; /* nearly all; a compiler's messages are longer */

static _Thread_local struct {
  const char *function;
  char text[SHORT_MESSAGE];
  char *longer; /* malloc'ed, instead of `text` */
} last;

/* Frees `last.longer` when its thread ends. */
static pthread_key_t longer_key;
static pthread_once_t longer_once = PTHREAD_ONCE_INIT;

static void make_longer_key(void) { pthread_key_create(&longer_key, free); }

static void keep_longer(char *text) {
  pthread_once(&longer_once, make_longer_key);
  pthread_setspecific(longer_key, text);
  free(last.longer);
  last.longer = text;
}

void IronErrorEnter(const char *function) { last.function = function; }

const char *IronErrorFunction(void) { return last.function ? last.function : ""; }

iron_status IronErrorReport(iron_status status, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  if (last.longer) keep_longer(NULL);

  int prefix = snprintf(last.text, sizeof last.text, "%s: ", last.function);
  int body = vsnprintf(last.text + prefix, sizeof last.text - (size_t)prefix, format, arguments);
  if (body > 0 && (size_t)(prefix + body) >= sizeof last.text) {
    size_t size = (size_t)prefix + (size_t)body + 1;
    char *text = malloc(size);
    if (text) { /* else the cut sentence must do */
      memcpy(text, last.text, (size_t)prefix);
      vsnprintf(text + prefix, size - (size_t)prefix, format, again);
      keep_longer(text);
    }
  }
  va_end(again);
  va_end(arguments);
  return status;
}

const char *IronErrorDescribeException(id raised) {
  if (![raised isKindOfClass:[NSException class]]) return "an object that is no NSException was thrown";
  NSException *exception = raised;
  return [[NSString stringWithFormat:@"%@: %@", [exception name], [exception reason]] UTF8String];
}

iron_status IronErrorCaught(id raised) {
  held_locks_expect_none("an exception reached an entry");
  bool memory = [raised isKindOfClass:[NSException class]] && [[raised name] isEqual:NSMallocException];
  return IronErrorReport(memory ? IRON_ERROR_OUT_OF_MEMORY : IRON_ERROR_INTERNAL, "%s",
                         IronErrorDescribeException(raised));
}

const char *IronErrorDescribe(NSError *error) {
  const char *text = [[error localizedDescription] UTF8String];
  return text ? text : "the device gave no reason";
}

const char *iron_last_error(void) { return last.longer ? last.longer : last.text; }

const char *iron_status_name(iron_status status) {
#define NAME(constant) \
  case constant: return #constant
  switch (status) {
    NAME(IRON_OK);
    NAME(IRON_ERROR_INVALID_ARGUMENT);
    NAME(IRON_ERROR_INVALID_HANDLE);
    NAME(IRON_ERROR_OUT_OF_RANGE);
    NAME(IRON_ERROR_SHAPE);
    NAME(IRON_ERROR_WRONG_DEVICE);
    NAME(IRON_ERROR_NO_DEVICE);
    NAME(IRON_ERROR_UNSUPPORTED);
    NAME(IRON_ERROR_NOT_FOUND);
    NAME(IRON_ERROR_COMPILE);
    NAME(IRON_ERROR_OUT_OF_MEMORY);
    NAME(IRON_ERROR_STATE);
    NAME(IRON_ERROR_BUSY);
    NAME(IRON_ERROR_MAPPED);
    NAME(IRON_ERROR_NOT_COMMITTED);
    NAME(IRON_ERROR_TIMEOUT);
    NAME(IRON_ERROR_POISONED);
    NAME(IRON_ERROR_READ_ONLY);
    NAME(IRON_ERROR_FILE);
    NAME(IRON_ERROR_MODEL);
    NAME(IRON_ERROR_CONTEXT_FULL);
    NAME(IRON_ERROR_CANCELED);
    NAME(IRON_ERROR_CHAT);
    NAME(IRON_ERROR_DEVICE_TIMEOUT);
    NAME(IRON_ERROR_DEVICE_PAGE_FAULT);
    NAME(IRON_ERROR_DEVICE_LOST);
    NAME(IRON_ERROR_DEVICE_INVALID);
    NAME(IRON_ERROR_DEVICE_INTERNAL);
    NAME(IRON_ERROR_INTERNAL);
  }
#undef NAME
  return "IRON_ERROR_UNKNOWN";
}
