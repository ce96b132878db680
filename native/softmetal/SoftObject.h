/* The root of the software device's classes: every object is counted per class (live_objects.h). */
#ifndef SOFT_OBJECT_H
#define SOFT_OBJECT_H

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "live_objects.h"

#ifdef __APPLE__
/* Apple's protocols require methods for textures, rendering, ray tracing and much else that no user of this device
 * calls. They are left out on purpose: a call answers with "unrecognized selector", which names the method. */
#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"
#endif

@interface SoftObject : NSObject
/* The class's counter. Every concrete class has its own, through SOFT_COUNTED. */
+ (live_objects_class *)liveObjects;
@end

/* Goes into the @implementation of each concrete class. */
#define SOFT_COUNTED(class_name) \
  +(live_objects_class *)liveObjects { \
    static live_objects_class counted = {.name = #class_name}; \
    return &counted; \
  }

#endif
