/* What the bridge knows about itself: live handles, live objects, objects that no pool took. */
#import <Foundation/Foundation.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "diagnostics.h"
#import "base/entry.h"
#import "base/handle.h"
#import "live_objects.h"
#import "base/structs.h"

#ifdef GNUSTEP_BASE_LIBRARY

/* GNUstep reports an object that is autoreleased while its thread has no pool as a line of its log, and nowhere else.
 * Those lines are counted instead of shown; all others go where they went. */
static _Atomic(int64_t) without_pool;
static NSLog_printf_handler *show;

static void watch(NSString *line) {
  @autoreleasepool { /* always, not IRON_POOL: without one this function would report itself, for ever */
    const char *text = [line UTF8String];
    if (text && strstr(text, "autorelease called without pool"))
      atomic_fetch_add(&without_pool, 1);
    else if (show)
      show(line);
    else
      fprintf(stderr, "%s", text ? text : "");
  }
}

__attribute__((constructor)) static void start_watching(void) {
  show = _NSLog_printf_handler;
  _NSLog_printf_handler = watch;
}

int64_t IronAutoreleasedWithoutPool(void) { return atomic_load(&without_pool); }

/* GNUstep's pools know their parent and how many objects they hold, but say only the latter. */
@interface NSAutoreleasePool (IronChain)
- (NSAutoreleasePool *)ironParent;
- (int64_t)ironCount;
@end

@implementation NSAutoreleasePool (IronChain)
- (NSAutoreleasePool *)ironParent {
  return _parent;
}
- (int64_t)ironCount {
  return _released_count;
}
@end

int64_t IronAutoreleased(void) {
  int64_t count = 0;
  for (NSAutoreleasePool *pool = [NSAutoreleasePool currentPool]; pool; pool = [pool ironParent])
    count += [pool ironCount];
  return count;
}

#else

int64_t IronAutoreleasedWithoutPool(void) { return -1; }
int64_t IronAutoreleased(void) { return -1; }

#endif

iron_status iron_diagnose(iron_diagnostics *diagnostics) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(diagnostics, "diagnostics");
    iron_diagnostics full = {.live_handles = IronHandleLiveCount(),
                             .autoreleased_without_pool = IronAutoreleasedWithoutPool()};
    for (const live_objects_class *counted = live_objects_next(NULL); counted; counted = live_objects_next(counted))
      full.live_objects += live_objects_count(counted);
    IRON_WRITE_STRUCT(diagnostics, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_live_objects(iron_live_objects_callback visit, void *context) {
  IRON_ENTRY {
    if (!visit) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "visit: is NULL");
    for (const live_objects_class *counted = live_objects_next(NULL); counted; counted = live_objects_next(counted))
      visit(counted->name, live_objects_count(counted), context);
    return IRON_OK;
  } IRON_LEAVE
}
