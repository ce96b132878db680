#import "SoftObject.h"

@implementation SoftObject

+ (live_objects_class *)liveObjects {
  [NSException raise:NSInternalInconsistencyException format:@"%@ lacks SOFT_COUNTED", NSStringFromClass(self)];
  return NULL;
}

- (instancetype)init {
  self = [super init];
  if (self) live_objects_add([[self class] liveObjects]);
  return self;
}

- (void)dealloc {
  live_objects_remove([[self class] liveObjects]);
  [super dealloc];
}

@end
