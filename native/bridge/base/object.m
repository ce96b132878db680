#import "object.h"

#include "held_locks.h"

@implementation IronObject

+ (live_objects_class *)liveObjects {
  [NSException raise:NSInternalInconsistencyException format:@"%@ does not say where it is counted", self];
  return NULL;
}

- (instancetype)init {
  self = [super init];
  if (self) live_objects_add([[self class] liveObjects]);
  return self;
}

- (void)dealloc {
  held_locks_expect_none("an object of the bridge is destroyed");
  live_objects_remove([[self class] liveObjects]);
  [super dealloc];
}

@end
