/* The base class of everything the bridge allocates: its instances are counted, class by class. */
#ifndef IRON_BRIDGE_OBJECT_H
#define IRON_BRIDGE_OBJECT_H

#import <Foundation/Foundation.h>

#include "live_objects.h"

@interface IronObject : NSObject
/* Where the class counts its instances; see IRON_COUNTED. */
+ (live_objects_class *)liveObjects;
@end

/* Inside an @implementation of a class with instances. */
#define IRON_COUNTED(Class)                               \
  +(live_objects_class *)liveObjects {                    \
    static live_objects_class counted = {.name = #Class}; \
    return &counted;                                      \
  }

#endif
