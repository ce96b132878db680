#import "SoftReferent.h"

#include "SoftLock.h"
#include "schedule.h"

@implementation SoftReferent

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  _uses = soft_uses_new();
  if (_uses) return self;
  [self release];
  return nil;
}

- (void)dealloc {
  pthread_mutex_destroy(&_lock);
  soft_uses_release(_uses);
  [_name release];
  [super dealloc];
}

- (NSString *)beginUse {
  soft_lock(&_lock);
  atomic_fetch_add(&_uses->count, 1);
  soft_unlock(&_lock);
  return nil;
}

- (void)endUse {
  soft_schedule_point();
  atomic_fetch_sub(&_uses->count, 1);
}

- (soft_uses *)uses {
  return _uses;
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
