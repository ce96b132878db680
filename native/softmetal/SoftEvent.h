/* id<MTLEvent> and id<MTLSharedEvent>: a number that never decreases. Command buffers and threads wait until it is
 * large enough. */
#ifndef SOFT_EVENT_H
#define SOFT_EVENT_H

#import "SoftDevice.h"

#include <pthread.h>

@class SoftQueueOrder;

/* Somebody to be told once a value is reached: an order that goes on, whose command buffer this is part of, or a block,
 * for which it was allocated. */
typedef struct soft_waiter {
  struct soft_waiter *next;
  uint64_t value;
  SoftQueueOrder *order;
  MTLSharedEventNotificationBlock block;
  bool listed; /* by the event */
} soft_waiter;

@interface SoftEvent : SoftObject <MTLSharedEvent> {
@private
  SoftDevice *_device;
  BOOL _shared;
  NSString *_label;
  pthread_mutex_t _lock;
  pthread_cond_t _changed;
  uint64_t _value;
  soft_waiter *_waiters;
}
/* A shared event may be used with every device, and by the host. */
- (instancetype)initWithDevice:(SoftDevice *)device shared:(BOOL)shared;
/* Whether command buffers of that device may use it. */
- (BOOL)isOf:(SoftDevice *)device;
/* Whether the waiter's value is reached. If not, it is told once it is, and stays where it is until then. */
- (BOOL)hasReachedOrTells:(soft_waiter *)waiter;
/* Not under a lock of this folder: waiting command buffers are submitted, and blocks run. */
- (void)signal:(uint64_t)value;
@end

/* The event, or an exception: nil, another implementation's, or one that is another device's own. */
SoftEvent *soft_require_event(id receiver, SEL selector, id event, SoftDevice *device);

#endif
