#import "SoftQueueOrder.h"

#include "SoftLock.h"
#include "schedule.h"

#include <stdatomic.h>

@implementation SoftQueueOrder

SOFT_COUNTED(SoftQueueOrder)

/* The callbacks that this thread is in, the innermost first. */
static _Thread_local soft_frame *innermost;

- (instancetype)initWithBackend:(SoftBackend *)backend {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  pthread_cond_init(&_changed, NULL);
  _backend = [backend retain];
  if ([backend table]->stream_create([backend handle], &_stream, NULL) == SOFT_OK) return self;
  _stream = NULL;
  [self release];
  return nil;
}

- (void)dealloc {
  pthread_mutex_destroy(&_lock);
  pthread_cond_destroy(&_changed);
  [_backend release];
  [super dealloc];
}

- (void)close {
  if (_stream) [_backend table]->stream_release(_stream);
  _stream = NULL;
}

#pragma mark Places

/* Lock held. */
- (void)append:(soft_place *)place {
  place->number = ++_newest;
  *(_last ? &_last->next : &_first) = place;
  _last = place;
}

/* Takes a place off the list. Lock held. */
- (void)remove:(soft_place *)place {
  soft_place **link = &_first;
  soft_place *before = NULL;
  while (*link != place) {
    before = *link;
    link = &before->next;
  }
  *link = place->next;
  if (_last == place) _last = before;
  place->next = NULL;
}

/* Hands what is first and committed to the stream, which takes one thread at a time. Lock held, which each `begin`
 * takes, too: so no command buffer ends before its ticket is known. */
- (void)submitWithFlags:(uint32_t)flags {
  while (_first && _first->committed) {
    soft_place *place = _first;
    soft_part *part = place->part;
    if (part->event && ![part->event hasReachedOrTells:&part->waiter]) return;
    place->part = part->next;
    if (!place->part) [self remove:place];
    uint64_t ticket = [_backend table]->stream_submit(_stream, &part->submission, flags);
    atomic_store_explicit(&place->ticket, ticket, memory_order_release);
  }
}

- (void)enqueue:(soft_place *)place {
  soft_lock(&_lock);
  [self append:place];
  soft_unlock(&_lock);
}

- (void)leave:(soft_place *)place {
  soft_lock(&_lock);
  [self remove:place];
  [self submitWithFlags:0]; /* the one behind may be committed and first now */
  soft_unlock(&_lock);
}

- (void)commit:(soft_place *)place parts:(soft_part *)first wakes:(BOOL)wakes starts:(BOOL)starts {
  soft_lock(&_lock);
  if (!place->number) [self append:place];
  for (soft_part *part = first; part; part = part->next) part->waiter.order = self;
  place->part = first;
  place->committed = true;
  [self submitWithFlags:wakes ? 0 : SOFT_WILL_HELP];
  soft_unlock(&_lock);
  soft_schedule_point();
  if (starts) [_backend table]->stream_start(_stream);
}

- (void)goOn {
  soft_lock(&_lock);
  [self submitWithFlags:0];
  soft_unlock(&_lock);
  soft_schedule_point();
}

- (void)helpUntil:(const soft_place *)place {
  uint64_t ticket = atomic_load_explicit(&place->ticket, memory_order_acquire);
  if (ticket) [_backend table]->stream_help(_stream, ticket);
}

#pragma mark Waiting

/* Until something has changed, or for no reason. Lock held, and let go of meanwhile. */
- (void)sleep {
  soft_sleeper sleeper;
  soft_schedule_sleep(&sleeper, &_changed);
  pthread_cond_wait(&_changed, &_lock);
  soft_unlock(&_lock);
  soft_schedule_awake(&sleeper);
  soft_lock(&_lock);
}

- (void)waitUntilScheduled:(const soft_place *)place {
  uint64_t number = place->number;
  soft_lock(&_lock);
  while (_scheduled < number) [self sleep];
  soft_unlock(&_lock);
}

- (void)waitUntilFinished:(const soft_place *)place {
  uint64_t number = place->number;
  [self retain];
  [self helpUntil:place];
  soft_lock(&_lock);
  while (_finished < number) [self sleep];
  soft_unlock(&_lock);
  [self release];
}

- (void)reach:(uint64_t)number of:(uint64_t *)count {
  soft_lock(&_lock);
  *count = number;
  pthread_cond_broadcast(&_changed);
  soft_schedule_wake(&_changed);
  soft_unlock(&_lock);
}

- (void)didSchedule:(uint64_t)number {
  [self reach:number of:&_scheduled];
}

- (void)didFinish:(uint64_t)number {
  [self reach:number of:&_finished];
}

#pragma mark Callbacks

- (void)enter:(soft_frame *)frame {
  *frame = (soft_frame){.order = self, .outer = innermost};
  innermost = frame;
}

- (void)leaveFrame:(soft_frame *)frame {
  innermost = frame->outer;
}

- (BOOL)isCurrentThread {
  for (const soft_frame *frame = innermost; frame; frame = frame->outer) {
    if (frame->order == self) return YES;
  }
  return NO;
}

@end
