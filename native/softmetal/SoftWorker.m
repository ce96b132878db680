#import "SoftWorker.h"

#import "SoftCommandBuffer.h"
#import "SoftQueue.h"
#include "SoftStack.h"

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
  uint64_t end = patience ? now() + patience : 0;
  pthread_mutex_lock(&_lock);
  while (!_closing && ![self next]) {
    if (end == 0 || now() >= end) {
      pthread_cond_wait(&_work, &_lock);
      continue;
    }
    uint64_t seen = atomic_load(&_news);
    pthread_mutex_unlock(&_lock);
    [self lookForNews:seen until:end];
    pthread_mutex_lock(&_lock);
  }
  soft_place *place = [self next];
  if (place) [self take];
  pthread_mutex_unlock(&_lock);
  return place;
}

- (void)didFinish:(uint64_t)ticket {
  pthread_mutex_lock(&_lock);
  _finished = ticket;
  _running = false;
  pthread_cond_broadcast(&_changed);
  pthread_mutex_unlock(&_lock);
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
  [self didFinish:ticket];
}

static void *run(void *argument) {
  SoftWorker *worker = argument;
  soft_place *place;
  uint64_t patience = 0; /* who has just worked is likely to get more */
  while ((place = [worker nextWithPatience:patience])) {
    const soft_executor *executor = executor_of(place);
    executor->adopt_thread();
    [worker run:place];
    patience = executor->patience();
  }
  [worker release];
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
  pthread_mutex_lock(&_lock);
  _closing = true;
  pthread_cond_signal(&_work);
  pthread_mutex_unlock(&_lock);
  atomic_fetch_add(&_news, 1);
  if (pthread_equal(_thread, pthread_self())) {
    pthread_detach(_thread);
  } else {
    pthread_join(_thread, NULL);
  }
}

- (soft_place *)enqueue:(SoftCommandBuffer *)commands {
  soft_place *place = calloc(1, sizeof *place);
  if (!place) abort(); /* Metal's enqueue and commit cannot fail, and there is no memory for an exception either */
  place->commands = commands;
  pthread_mutex_lock(&_lock);
  place->ticket = ++_ticket;
  if (_last) {
    _last->next = place;
  } else {
    _first = place;
  }
  _last = place;
  pthread_mutex_unlock(&_lock);
  return place;
}

- (void)leave:(soft_place *)place {
  pthread_mutex_lock(&_lock);
  soft_place **link = &_first;
  soft_place *before = NULL;
  while (*link != place) {
    before = *link;
    link = &before->next;
  }
  *link = place->next;
  if (_last == place) _last = before;
  pthread_cond_signal(&_work); /* the one behind may be committed and first now */
  pthread_mutex_unlock(&_lock);
  atomic_fetch_add(&_news, 1);
  free(place);
}

- (void)commit:(soft_place *)place quietly:(BOOL)quietly {
  [place->commands retain];
  pthread_mutex_lock(&_lock);
  place->committed = true;
  if (!quietly) pthread_cond_signal(&_work);
  pthread_mutex_unlock(&_lock);
  /* Not before: who looks finds the mutex free. The caller's command buffer keeps the queue, which keeps this. */
  if (!quietly) atomic_fetch_add(&_news, 1);
}

/* The next place, taken, when it is not after `ticket` and the calling thread may run it; else NULL, and the worker's
 * thread sees to what there is. */
- (soft_place *)nextUntil:(uint64_t)ticket {
  pthread_mutex_lock(&_lock);
  soft_place *place = [self next];
  bool mine = place && place->ticket <= ticket && place->any_thread && soft_stack_has_room() &&
              executor_of(place)->takes_guests();
  if (mine) [self take];
  bool others = place && !mine;
  if (others) pthread_cond_signal(&_work);
  pthread_mutex_unlock(&_lock);
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
  pthread_mutex_lock(&_lock);
  while (_scheduled < ticket) pthread_cond_wait(&_changed, &_lock);
  pthread_mutex_unlock(&_lock);
}

- (void)waitUntilFinished:(uint64_t)ticket {
  [self workUntil:ticket];
  pthread_mutex_lock(&_lock);
  while (_finished < ticket) pthread_cond_wait(&_changed, &_lock);
  pthread_mutex_unlock(&_lock);
}

- (void)didSchedule:(uint64_t)ticket {
  pthread_mutex_lock(&_lock);
  _scheduled = ticket;
  pthread_cond_broadcast(&_changed);
  pthread_mutex_unlock(&_lock);
}

- (BOOL)isCurrentThread {
  pthread_mutex_lock(&_lock);
  bool current = _running && pthread_equal(_runner, pthread_self());
  pthread_mutex_unlock(&_lock);
  return current;
}

@end
