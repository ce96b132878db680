#import "SoftReferent.h"

#include "SoftLock.h"
#include "schedule.h"

#include <stdatomic.h>

@implementation SoftReferent

- (instancetype)init {
  self = [super init];
  if (self) pthread_mutex_init(&_lock, NULL);
  return self;
}

- (void)dealloc {
  pthread_mutex_destroy(&_lock);
  [_name release];
  [super dealloc];
}

- (uint64_t)lastNamedBy {
  return atomic_load_explicit(&_lastNamedBy, memory_order_relaxed);
}

- (void)setLastNamedBy:(uint64_t)commandBuffer {
  atomic_store_explicit(&_lastNamedBy, commandBuffer, memory_order_relaxed);
}

- (NSString *)beginUse {
  soft_lock(&_lock);
  _users++;
  soft_unlock(&_lock);
  return nil;
}

- (void)endUse {
  soft_schedule_point();
  soft_lock(&_lock);
  _users--;
  soft_unlock(&_lock);
}

- (void)abandonAs:(NSString *)name {
  NSString *copy = [name copy];
  soft_lock(&_lock);
  _abandoned = YES;
  _name = copy; /* called once */
  soft_unlock(&_lock);
}

- (NSString *)abandoned {
  soft_lock(&_lock);
  BOOL abandoned = _abandoned;
  soft_unlock(&_lock);
  return abandoned ? [NSString stringWithFormat:@"%@ '%@'", [self kind], _name ? _name : @""] : nil;
}

- (NSString *)kind {
  return @"object";
}

@end
