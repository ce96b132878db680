/* Text between C's UTF-8 and NSString. */
#ifndef IRON_BRIDGE_TEXT_H
#define IRON_BRIDGE_TEXT_H

#import <Foundation/Foundation.h>

#include "ironbridge.h"

/* `bytes` as an NSString (autoreleased), nil for NULL; IRON_ERROR_INVALID_ARGUMENT when they are not UTF-8. */
iron_status IronTextRead(NSString **text, const char *bytes, const char *argument);

/* The same of a path, which has to be there: IRON_ERROR_INVALID_ARGUMENT when it is NULL or empty, too. */
iron_status IronPathRead(NSString **path, const char *bytes);

/* Copies NUL-terminated UTF-8 into `capacity` > 0 bytes, cut between two characters when it does not fit. */
void IronTextCopy(char *into, size_t capacity, const char *bytes);

/* The same for a line of a report: control characters of its `length` bytes are escaped as in C, so that the line
   stays one. */
void IronTextEscape(char *into, size_t capacity, const char *bytes, size_t length);

#endif
