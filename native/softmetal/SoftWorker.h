/* Runs a queue's command buffers, one after another in the order in which they were enqueued: a thread of its own does,
 * and while that has not begun, a thread that waits for one of them. To wake a thread takes longer than many a command
 * buffer.
 *
 * The thread keeps the worker alive and nothing else, so a queue can be given up at any time and on any thread. A
 * committed command buffer is kept by its worker and keeps its queue; the last one to go therefore takes the queue
 * along, perhaps on this very thread. */
#ifndef SOFT_WORKER_H
#define SOFT_WORKER_H

#import "SoftObject.h"

#include <pthread.h>
#include <stdatomic.h>

@class SoftCommandBuffer;

/* A place in the order. */
typedef struct soft_place {
  struct soft_place *next;
  uint64_t ticket; /* grows from place to place */
  SoftCommandBuffer *commands;
  bool committed; /* from then on `commands` is retained */
  bool any_thread; /* it need not be the worker's own that runs it */
} soft_place;

@interface SoftWorker : SoftObject {
@private
  pthread_t _thread;
  pthread_mutex_t _lock;
  pthread_cond_t _work;    /* for the thread: there may be something to run */
  pthread_cond_t _changed; /* for those who wait: something was scheduled or finished */
  _Atomic(uint64_t) _news; /* grows after there may be something to run, for a thread that does not sleep yet */
  soft_place *_first, *_last;
  uint64_t _ticket;    /* the newest */
  uint64_t _scheduled; /* up to this one, scheduled handlers have run */
  uint64_t _finished;  /* up to this one, all is done and the worker's references are gone */
  bool _running;       /* a command buffer, ... */
  pthread_t _runner;   /* ... on this thread */
  bool _closing;
}
/* nil when the system has no thread left. */
- (instancetype)init;
/* Ends the thread after what was committed; waits for it, unless called on it. Called once, by the queue's dealloc. */
- (void)close;

- (soft_place *)enqueue:(SoftCommandBuffer *)commands;
/* Gives up a place that was never committed. */
- (void)leave:(soft_place *)place;
/* The place belongs to the worker from here on. Quietly: the thread sleeps on, as the caller is about to call
 * `workUntil`. */
- (void)commit:(soft_place *)place quietly:(BOOL)quietly;
/* Runs what is next, up to that one, on the calling thread, until another thread is at work or has to be. */
- (void)workUntil:(uint64_t)ticket;

- (void)waitUntilScheduled:(uint64_t)ticket;
/* On return, completed handlers have run and the worker holds neither the command buffer nor its queue. */
- (void)waitUntilFinished:(uint64_t)ticket;
/* Called by a command buffer while it runs. */
- (void)didSchedule:(uint64_t)ticket;
/* Whether the calling thread is running a command buffer. */
- (BOOL)isCurrentThread;
@end

#endif
