/* The calling thread's last error: a sentence that starts with the function's name and names the argument. */
#ifndef IRON_BRIDGE_ERROR_H
#define IRON_BRIDGE_ERROR_H

#import <Foundation/Foundation.h>

#include "ironbridge.h"

/* The function whose name the messages of this thread start with from now on. `function` is static. */
void IronErrorEnter(const char *function);

/* That function's name. */
const char *IronErrorFunction(void);

/* Keeps the sentence for iron_last_error() and returns `status`. */
iron_status IronErrorReport(iron_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reports an Objective-C exception that reached an entry. */
iron_status IronErrorCaught(id raised);

/* What an exception has to say, autoreleased. */
const char *IronErrorDescribeException(id raised);

/* What an NSError has to say, autoreleased; never NULL. */
const char *IronErrorDescribe(NSError *error);

#endif
