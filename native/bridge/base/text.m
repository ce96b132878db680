#import "text.h"

#include <stdio.h>
#include <string.h>

#import "error.h"

iron_status IronTextRead(NSString **text, const char *bytes, const char *argument) {
  *text = nil;
  if (!bytes) return IRON_OK;
  *text = [[[NSString alloc] initWithBytes:bytes length:strlen(bytes) encoding:NSUTF8StringEncoding] autorelease];
  if (!*text) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is not UTF-8", argument);
  return IRON_OK;
}

iron_status IronPathRead(NSString **path, const char *bytes) {
  if (!bytes || !*bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "path: is %s", bytes ? "empty" : "NULL");
  return IronTextRead(path, bytes, "path");
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

/* Bytes of the control character that `bytes` starts with: those of ASCII, and U+0080 to U+009F in UTF-8. 0: it is
 * none. */
static size_t control_length(const unsigned char *bytes, size_t length) {
  if (bytes[0] < 0x20 || bytes[0] == 0x7F) return 1;
  return bytes[0] == 0xC2 && length > 1 && bytes[1] >= 0x80 && bytes[1] < 0xA0 ? 2 : 0;
}

void IronTextEscape(char *into, size_t capacity, const char *bytes, size_t length) {
  size_t used = 0;
  for (size_t index = 0; index < length;) {
    const unsigned char *at = (const unsigned char *)bytes + index;
    size_t control = control_length(at, length - index), step = control;
    char piece[16];
    if (control == 1 && (*at == '\n' || *at == '\t' || *at == '\r')) {
      snprintf(piece, sizeof piece, "\\%c", *at == '\n' ? 'n' : *at == '\t' ? 't' : 'r');
    } else if (control) {
      snprintf(piece, sizeof piece, control == 1 ? "\\x%02x" : "\\u%04x", at[control - 1]);
    } else {
      for (step = 1; index + step < length && step < 4 && (at[step] & 0xC0) == 0x80;) step++; /* a whole character */
      memcpy(piece, at, step);
      piece[step] = '\0';
    }
    size_t added = strlen(piece);
    if (used + added >= capacity) break;
    memcpy(into + used, piece, added);
    used += added;
    index += step;
  }
  into[used] = '\0';
}
