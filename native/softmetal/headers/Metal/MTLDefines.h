/* What Apple's Foundation and Availability headers give to Metal's, and GNUstep's Foundation does not. */
#ifndef SOFTMETAL_MTL_DEFINES_H
#define SOFTMETAL_MTL_DEFINES_H

#import <Foundation/Foundation.h>

#ifdef __cplusplus
#define MTL_EXTERN extern "C"
#else
#define MTL_EXTERN extern
#endif
#define MTL_INLINE static inline

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
