#import "foundation.h"

#ifdef GNUSTEP_BASE_LIBRARY

#include <pthread.h>

/* GNUstep keeps the implementations of some methods in static variables that the first call fills in, one after another
 * and without a lock. A second thread that comes in between finds the first variable set and calls the next one, which
 * is still NULL. In base 1.28 as in 1.31 these are `GSAutoreleasedBuffer()`, which holds what -UTF8String gives, the
 * encoding of "%s" in a format, `+[NSAutoreleasePool new]`, which GNUstep calls when a thread ends, and what classes
 * of collections look up when the first is made. */
static void *fill_caches(void *nothing) {
  @autoreleasepool {
    [[NSString stringWithFormat:@"%s, %g, %@", "text", 0.5, @"object"] UTF8String];
    [[NSAutoreleasePool new] drain];
    [[NSMutableArray arrayWithObject:@"object"] containsObject:@"object"];
    [[NSMutableSet setWithObject:@"object"] containsObject:@"object"];
    [[NSMutableDictionary dictionaryWithObject:@"object" forKey:@"key"] objectForKey:@"key"];
    [[NSMutableIndexSet indexSetWithIndex:1] containsIndex:1];
  }
  return nothing;
}

/* In a thread: so that one has ended as well. */
static void prepare(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, fill_caches, NULL) == 0)
    pthread_join(thread, NULL);
  else
    fill_caches(NULL);
}

void IronFoundationPrepare(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare);
}

#endif
