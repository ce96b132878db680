#import "SoftResidencySet.h"

#import "SoftBuffer.h"
#include "SoftLock.h"
#import "SoftValidation.h"

@implementation SoftResidencySet

SOFT_COUNTED(SoftResidencySet)

- (instancetype)initWithDevice:(SoftDevice *)device label:(NSString *)label {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  _device = [device retain];
  _label = [label copy];
  _staged = [NSMutableSet new];
  _committed = [NSMutableSet new];
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    for (NSValue *each in _staged) [(SoftBuffer *)[each nonretainedObjectValue] leaveResidencySet];
    [_staged release];
    [_committed release];
    [_label release];
    [_device release];
  }
  pthread_mutex_destroy(&_lock);
  [super dealloc];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (NSString *)label {
  return _label;
}

- (void)addAllocation:(id)allocation {
  SoftBuffer *buffer = soft_require_buffer(self, _cmd, @"allocation", allocation, _device);
  NSValue *value = [NSValue valueWithNonretainedObject:buffer];
  soft_lock(&_lock);
  BOOL added = ![_staged containsObject:value];
  if (added) [_staged addObject:value];
  soft_unlock(&_lock);
  if (added) [buffer joinResidencySet];
}

- (void)removeAllocation:(id)allocation {
  SoftBuffer *buffer = soft_require_buffer(self, _cmd, @"allocation", allocation, _device);
  NSValue *value = [NSValue valueWithNonretainedObject:buffer];
  soft_lock(&_lock);
  BOOL removed = [_staged containsObject:value];
  if (removed) [_staged removeObject:value];
  soft_unlock(&_lock);
  SOFT_REQUIRE(removed, @"%@ is not in the residency set", buffer);
  [buffer leaveResidencySet];
}

- (void)removeAllAllocations {
  soft_lock(&_lock);
  NSSet *all = [[_staged copy] autorelease];
  [_staged removeAllObjects];
  soft_unlock(&_lock);
  for (NSValue *each in all) [(SoftBuffer *)[each nonretainedObjectValue] leaveResidencySet];
}

- (void)commit {
  soft_lock(&_lock);
  [_committed setSet:_staged];
  soft_unlock(&_lock);
}

- (void)requestResidency {
  soft_lock(&_lock);
  _resident = YES;
  _requests++;
  soft_unlock(&_lock);
}

- (void)endResidency {
  soft_lock(&_lock);
  _resident = NO;
  soft_unlock(&_lock);
}

- (BOOL)containsAllocation:(id)allocation {
  NSValue *value = [NSValue valueWithNonretainedObject:allocation];
  soft_lock(&_lock);
  BOOL contains = [_committed containsObject:value];
  soft_unlock(&_lock);
  return contains;
}

- (NSUInteger)allocationCount {
  soft_lock(&_lock);
  NSUInteger count = [_committed count];
  soft_unlock(&_lock);
  return count;
}

- (uint64_t)allocatedSize {
  uint64_t bytes = 0;
  soft_lock(&_lock);
  for (NSValue *each in _committed) bytes += [(SoftBuffer *)[each nonretainedObjectValue] allocatedSize];
  soft_unlock(&_lock);
  return bytes;
}

@end
