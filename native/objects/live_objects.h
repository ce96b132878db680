/* How many objects of each of our Objective-C classes are alive: the figure behind every "nothing is left" test.
 * Used by the bridge's and the software device's classes alike; knows neither. Lock-free, callable from any thread. */
#ifndef IRON_LIVE_OBJECTS_H
#define IRON_LIVE_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One per class, in static storage: `static live_objects_class counted = {"IronBuffer"};`. It links itself in on the
 * first live_objects_add. */
typedef struct live_objects_class {
  const char *name;
  _Atomic(int64_t) live;
  _Atomic(int) linked;
  struct live_objects_class *next;
} live_objects_class;

void live_objects_add(live_objects_class *counted);
void live_objects_remove(live_objects_class *counted);

/* The classes seen so far, newest first: NULL starts, NULL ends. */
const live_objects_class *live_objects_next(const live_objects_class *previous);
int64_t live_objects_count(const live_objects_class *counted);

#ifdef __cplusplus
}
#endif
#endif
