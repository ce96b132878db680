#import "SoftEvent.h"

#include "SoftLock.h"
#import "SoftQueueOrder.h"
#import "SoftValidation.h"
#include "schedule.h"

#include <Block.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void drop_block(soft_waiter *waiter) {
  Block_release(waiter->block);
  free(waiter);
}

@implementation SoftEvent

SOFT_COUNTED(SoftEvent)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device shared:(BOOL)shared {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  pthread_cond_init(&_changed, NULL);
  _device = [device retain];
  _shared = shared;
  return self;
}

- (void)dealloc {
  while (_waiters) { /* blocks: an order's command buffer holds its event */
    soft_waiter *next = _waiters->next;
    drop_block(_waiters);
    _waiters = next;
  }
  [_label release];
  [_device release];
  pthread_mutex_destroy(&_lock);
  pthread_cond_destroy(&_changed);
  [super dealloc];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"event '%@'", _label ? _label : @""];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (BOOL)isOf:(SoftDevice *)device {
  return _shared || device == _device;
}

#pragma mark Waiting

/* Lock held. */
- (void)unlist:(soft_waiter *)waiter {
  soft_waiter **link = &_waiters;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
  waiter->next = NULL;
  waiter->listed = false;
}

- (BOOL)hasReachedOrTells:(soft_waiter *)waiter {
  soft_lock(&_lock);
  BOOL reached = _value >= waiter->value;
  if (reached && waiter->listed) [self unlist:waiter];
  if (!reached && !waiter->listed) {
    soft_waiter **link = &_waiters;
    while (*link) link = &(*link)->next; /* in the order in which they came */
    *link = waiter;
    waiter->listed = true;
  }
  soft_unlock(&_lock);
  return reached;
}

- (void)notifyListener:(MTLSharedEventListener *)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block {
  SOFT_REQUIRE(listener, @"listener must not be nil");
  SOFT_REQUIRE(block, @"block must not be nil");
  soft_waiter *waiter = calloc(1, sizeof *waiter);
  SOFT_REQUIRE_STATE(waiter, @"out of memory");
  waiter->value = value;
  waiter->block = Block_copy(block);
  if ([self hasReachedOrTells:waiter]) [self callBlock:waiter];
}

- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds {
  const uint64_t longest = UINT64_C(1000) * 60 * 60 * 24 * 365;
  uint64_t wait = milliseconds < longest ? milliseconds : longest;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end); /* what pthread_cond_timedwait compares with */
  end.tv_sec += (time_t)(wait / 1000);
  end.tv_nsec += (long)(wait % 1000) * 1000000;
  if (end.tv_nsec >= 1000000000) {
    end.tv_sec++;
    end.tv_nsec -= 1000000000;
  }
  soft_lock(&_lock);
  while (_value < value) {
    soft_schedule_depart();
    if (pthread_cond_timedwait(&_changed, &_lock, &end) == ETIMEDOUT) break;
  }
  BOOL reached = _value >= value;
  soft_unlock(&_lock);
  soft_schedule_point();
  return reached;
}

#pragma mark Signaling

- (uint64_t)signaledValue {
  soft_lock(&_lock);
  uint64_t value = _value;
  soft_unlock(&_lock);
  return value;
}

- (void)setSignaledValue:(uint64_t)value {
  [self signal:value];
}

- (void)signal:(uint64_t)value {
  soft_lock(&_lock);
  if (value > _value) _value = value;
  pthread_cond_broadcast(&_changed);
  soft_unlock(&_lock);
  soft_schedule_point();
  while ([self tellOneUpTo:value]) {
  }
}

/* NO: nobody waits for that value any more. */
- (BOOL)tellOneUpTo:(uint64_t)value {
  soft_lock(&_lock);
  soft_waiter *waiter = _waiters;
  while (waiter && waiter->value > value) waiter = waiter->next;
  SoftQueueOrder *order = nil;
  if (waiter) {
    [self unlist:waiter];
    order = [waiter->order retain]; /* it lives: its command buffer is not submitted */
  }
  soft_unlock(&_lock);
  if (!waiter) return NO;
  if (!order) {
    [self callBlock:waiter];
    return YES;
  }
  [order goOn];
  [order release];
  return YES;
}

- (void)callBlock:(soft_waiter *)waiter {
  @autoreleasepool {
    waiter->block((id<MTLSharedEvent>)self, waiter->value);
  }
  drop_block(waiter);
}

@end

SoftEvent *soft_require_event(id receiver, SEL selector, id event, SoftDevice *device) {
  if (![event isKindOfClass:[SoftEvent class]])
    soft_invalid(receiver, selector, @"event (%@) is not of the software device", event);
  SoftEvent *ours = event;
  if (![ours isOf:device]) soft_invalid(receiver, selector, @"event belongs to another device, and is not shared");
  return ours;
}
