/* What Apple's Foundation and Availability headers give to Metal's, and GNUstep's Foundation does not. */
#ifndef SOFTMETAL_MTL_DEFINES_H
#define SOFTMETAL_MTL_DEFINES_H

#import <Foundation/Foundation.h>

/* What the shared library exports; the rest of it is compiled with hidden symbols. */
#ifdef __cplusplus
#define MTL_EXTERN extern "C" __attribute__((visibility("default")))
#else
#define MTL_EXTERN extern __attribute__((visibility("default")))
#endif
#define MTL_INLINE static inline

/* clang writes all methods and properties of each protocol that a file declares into the file's data. That is for the
 * classes that adopt one. Who only sends messages says so, and is much smaller. */
#ifdef MTL_MESSAGES_ONLY
#define MTL_PROTOCOL __attribute__((objc_non_runtime_protocol))
#else
#define MTL_PROTOCOL
#endif

/* Every API declared here is there on every host that uses these headers. */
#ifndef API_AVAILABLE
#define API_AVAILABLE(...)
#endif
#ifndef API_UNAVAILABLE
#define API_UNAVAILABLE(...)
#endif
#ifndef NS_RETURNS_INNER_POINTER
#define NS_RETURNS_INNER_POINTER __attribute__((objc_returns_inner_pointer))
#endif

/* CoreFoundation's: seconds. */
typedef double CFTimeInterval;

#endif
