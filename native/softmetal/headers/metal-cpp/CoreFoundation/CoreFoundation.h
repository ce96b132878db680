/* The names of CoreFoundation and libdispatch that metal-cpp's declarations have, and what it expects to be included by
 * them. */
#ifndef SOFTMETAL_COREFOUNDATION_H
#define SOFTMETAL_COREFOUNDATION_H

#include <Block.h>
#include <math.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef const struct __CFString *CFStringRef;
typedef const struct __CFDictionary *CFDictionaryRef;
typedef struct dispatch_queue_s *dispatch_queue_t;
typedef struct dispatch_data_s *dispatch_data_t;
typedef int kern_return_t;

#endif
