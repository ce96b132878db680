#import "text.h"

#include <string.h>

#import "error.h"

iron_status IronTextRead(NSString **text, const char *bytes, const char *argument) {
  *text = nil;
  if (!bytes) return IRON_OK;
  *text = [[[NSString alloc] initWithBytes:bytes length:strlen(bytes) encoding:NSUTF8StringEncoding] autorelease];
  if (!*text) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is not UTF-8", argument);
  return IRON_OK;
}

void IronTextCopy(char *into, size_t capacity, const char *bytes) {
  size_t length = strlen(bytes);
  if (length >= capacity) {
    length = capacity - 1;
    while (length > 0 && ((unsigned char)bytes[length] & 0xC0) == 0x80)
      length -= 1; /* a continuation byte starts nothing */
  }
  memcpy(into, bytes, length);
  into[length] = '\0';
}
