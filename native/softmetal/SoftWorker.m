#import "SoftWorker.h"

#import "SoftCommandBuffer.h"
#include "SoftLock.h"
#import "SoftQueue.h"
#include "SoftStack.h"
#include "schedule.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

@implementation SoftWorker

SOFT_COUNTED(SoftWorker)

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Until `condition` is signalled, or for no reason. Lock held, and let go of meanwhile. */
- (void)sleepFor:(pthread_cond_t *)condition {
  soft_sleeper sleeper;
  soft_schedule_sleep(&sleeper, condition);
  pthread_cond_wait(condition, &_lock);
  soft_unlock(&_lock);
  soft_schedule_awake(&sleeper);
  soft_lock(&_lock);
}

/* Looks for news after the first `seen`. */
- (void)lookForNews:(uint64_t)seen until:(uint64_t)end {
  enum { LOOKS = 64 }; /* between two at the clock */
  do {
    for (int look = 0; look < LOOKS; look++) {
      if (atomic_load_explicit(&_news, memory_order_relaxed) != seen) return;
      relax();
    }
  } while (now() < end);
}

static const soft_executor *executor_of(const soft_place *place) {
  return [[place->commands softDevice] executor];
}

/* The next command buffer's place when nothing keeps it from running now, else NULL. Lock held. */
- (soft_place *)next {
  return !_running && _first && _first->committed ? _first : NULL;
}

/* Takes the first place off the list, for the calling thread to run. Lock held. */
- (void)take {
  _first = _first->next;
  if (!_first) _last = NULL;
  _running = true;
  _runner = pthread_self();
}

/* The next command buffer's place, taken, or NULL when the worker closes. */
- (soft_place *)nextWithPatience:(uint64_t)patience {
  uint64_t end = patience && !soft_schedule_is_on() ? now() + patience : 0;
  soft_lock(&_lock);
  while (!_closing && ![self next]) {
    if (end == 0 || now() >= end) {
      [self sleepFor:&_work];
      continue;
    }
    uint64_t seen = atomic_load(&_news);
    soft_unlock(&_lock);
    [self lookForNews:seen until:end];
    soft_lock(&_lock);
  }
  soft_place *place = [self next];
  if (place) [self take];
  soft_unlock(&_lock);
  soft_schedule_point();
  return place;
}

/* There may be something to run. Lock held. */
- (void)callThread {
  pthread_cond_signal(&_work);
  soft_schedule_wake(&_work);
}

- (void)didFinish:(uint64_t)ticket {
  soft_lock(&_lock);
  _finished = ticket;
  _running = false;
  pthread_cond_broadcast(&_changed);
  soft_schedule_wake(&_changed);
  soft_unlock(&_lock);
}

/* What the caller has taken. */
- (void)run:(soft_place *)place {
  SoftCommandBuffer *commands = place->commands;
  uint64_t ticket = place->ticket;
  free(place);
  SoftQueue *queue = [[commands queue] retain];
  @autoreleasepool {
    [commands run];
  }
  @autoreleasepool {
    [commands release];
  }
  /* The queue goes after the pool that its command buffer's last objects went to: when this is the last reference
   * elsewhere, the thread that drops it waits for this one, which by then has nothing of the user's left to do. */
  @autoreleasepool {
    [queue release];
  }
  soft_schedule_point();
  [self didFinish:ticket];
}

static void *run(void *argument) {
  SoftWorker *worker = argument;
  const void *joiner = &worker->_thread;
  soft_place *place;
  uint64_t patience = 0; /* who has just worked is likely to get more */
  while ((place = [worker nextWithPatience:patience])) {
    const soft_executor *executor = executor_of(place);
    executor->adopt_thread();
    [worker run:place];
    patience = executor->patience();
  }
  [worker release];
  soft_schedule_wake(joiner);
  return NULL;
}

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  pthread_cond_init(&_work, NULL);
  pthread_cond_init(&_changed, NULL);
  [self retain]; /* the thread's reference */
  if (pthread_create(&_thread, NULL, run, self) == 0) return self;
  [self release];
  [self release];
  return nil;
}

- (void)dealloc {
  pthread_mutex_destroy(&_lock);
  pthread_cond_destroy(&_work);
  pthread_cond_destroy(&_changed);
  [super dealloc];
}

- (void)close {
  soft_lock(&_lock);
  _closing = true;
  [self callThread];
  soft_unlock(&_lock);
  atomic_fetch_add(&_news, 1);
  if (pthread_equal(_thread, pthread_self())) {
    pthread_detach(_thread);
  } else {
    soft_sleeper sleeper;
    soft_schedule_sleep(&sleeper, &_thread);
    pthread_join(_thread, NULL);
    soft_schedule_awake(&sleeper);
  }
}

- (soft_place *)enqueue:(SoftCommandBuffer *)commands {
  soft_place *place = calloc(1, sizeof *place);
  if (!place) abort(); /* Metal's enqueue and commit cannot fail, and there is no memory for an exception either */
  place->commands = commands;
  soft_lock(&_lock);
  place->ticket = ++_ticket;
  if (_last) {
    _last->next = place;
  } else {
    _first = place;
  }
  _last = place;
  soft_unlock(&_lock);
  return place;
}

- (void)leave:(soft_place *)place {
  soft_lock(&_lock);
  soft_place **link = &_first;
  soft_place *before = NULL;
  while (*link != place) {
    before = *link;
    link = &before->next;
  }
  *link = place->next;
  if (_last == place) _last = before;
  [self callThread]; /* the one behind may be committed and first now */
  soft_unlock(&_lock);
  atomic_fetch_add(&_news, 1);
  free(place);
}

- (void)commit:(soft_place *)place quietly:(BOOL)quietly {
  [place->commands retain];
  soft_lock(&_lock);
  place->committed = true;
  if (!quietly) [self callThread];
  soft_unlock(&_lock);
  /* Not before: who looks finds the mutex free. The caller's command buffer keeps the queue, which keeps this. */
  if (!quietly) atomic_fetch_add(&_news, 1);
  soft_schedule_point();
}

/* The next place, taken, when it is not after `ticket` and the calling thread may run it; else NULL, and the worker's
 * thread sees to what there is. */
- (soft_place *)nextUntil:(uint64_t)ticket {
  soft_lock(&_lock);
  soft_place *place = [self next];
  bool mine = place && place->ticket <= ticket && place->any_thread && soft_stack_has_room() &&
              executor_of(place)->takes_guests();
  if (mine) [self take];
  bool others = place && !mine;
  if (others) [self callThread];
  soft_unlock(&_lock);
  if (others) atomic_fetch_add(&_news, 1);
  return mine ? place : NULL;
}

- (void)workUntil:(uint64_t)ticket {
  [self retain];
  soft_place *place;
  while ((place = [self nextUntil:ticket])) [self run:place];
  [self release];
}

- (void)waitUntilScheduled:(uint64_t)ticket {
  soft_lock(&_lock);
  while (_scheduled < ticket) [self sleepFor:&_changed];
  soft_unlock(&_lock);
}

- (void)waitUntilFinished:(uint64_t)ticket {
  [self workUntil:ticket];
  soft_lock(&_lock);
  while (_finished < ticket) [self sleepFor:&_changed];
  soft_unlock(&_lock);
}

- (void)didSchedule:(uint64_t)ticket {
  soft_lock(&_lock);
  _scheduled = ticket;
  pthread_cond_broadcast(&_changed);
  soft_schedule_wake(&_changed);
  soft_unlock(&_lock);
}

- (BOOL)isCurrentThread {
  soft_lock(&_lock);
  bool current = _running && pthread_equal(_runner, pthread_self());
  soft_unlock(&_lock);
  return current;
}

@end
