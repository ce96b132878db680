/* The order of a queue's command buffers: that of their enqueuing. A committed one goes to the backend's stream as soon
 * as all before it have and the events that it waits for are signaled; the stream begins and completes them in this
 * order, on whatever thread.
 *
 * Callbacks of the stream may drop the last reference to the queue, which closes this object. Whoever still uses it
 * then has a reference of its own. */
#ifndef SOFT_QUEUE_ORDER_H
#define SOFT_QUEUE_ORDER_H

#import "SoftBackend.h"
#import "SoftEvent.h"

#include <pthread.h>

/* What a command buffer does between two events: the stream's unit. */
typedef struct soft_part {
  struct soft_part *next; /* of the same command buffer */
  SoftEvent *event;       /* that it waits for, or nil */
  soft_waiter waiter;
  soft_submission submission;
} soft_part;

/* A place in the order; part of its command buffer. */
typedef struct soft_place {
  struct soft_place *next;
  uint64_t number; /* grows from place to place; 0: not enqueued */
  bool committed;
  soft_part *part;          /* the first one that is not submitted, once it is committed */
  _Atomic(uint64_t) ticket; /* the stream's, of the last part that is submitted; 0: none */
} soft_place;

/* A callback that the calling thread is in; lies on its stack. */
typedef struct soft_frame {
  const void *order;
  struct soft_frame *outer;
} soft_frame;

@interface SoftQueueOrder : SoftObject {
@private
  SoftBackend *_backend;
  soft_stream *_stream;
  pthread_mutex_t _lock;
  pthread_cond_t _changed;   /* something was scheduled or finished */
  soft_place *_first, *_last; /* not submitted */
  uint64_t _newest;
  uint64_t _scheduled; /* up to this place, scheduled handlers have run */
  uint64_t _finished;  /* up to this one, all is done and the stream's references are gone */
}
/* nil when the backend has no stream left. */
- (instancetype)initWithBackend:(SoftBackend *)backend;
/* Called once, by the queue's dealloc, when nothing is in flight but what calls it. */
- (void)close;

- (void)enqueue:(soft_place *)place;
/* Gives up a place that was never committed. */
- (void)leave:(soft_place *)place;
/* Enqueues it if need be, and submits what can be. Wakes no thread where the caller helps next. `starts`: on a backend
 * that needs no thread for it, execution begins here, and so does what calls back at its begin. */
- (void)commit:(soft_place *)place parts:(soft_part *)first wakes:(BOOL)wakes starts:(BOOL)starts;
/* Submits what can be: an event that a part waits for was signaled. */
- (void)goOn;
/* Executes what is submitted, up to that place, on the calling thread, as far as the backend lets it. */
- (void)helpUntil:(const soft_place *)place;

- (void)waitUntilScheduled:(const soft_place *)place;
/* On return, completed handlers have run and the stream holds neither the command buffer nor its queue. */
- (void)waitUntilFinished:(const soft_place *)place;
/* Called in the callbacks. */
- (void)didSchedule:(uint64_t)number;
- (void)didFinish:(uint64_t)number;
/* Round a callback. */
- (void)enter:(soft_frame *)frame;
- (void)leaveFrame:(soft_frame *)frame;
/* Whether the calling thread is in a callback of this order's. */
- (BOOL)isCurrentThread;
@end

#endif
