#import "SoftWorker.h"

#import "SoftCommandBuffer.h"
#import "SoftQueue.h"

#include <stdlib.h>

@implementation SoftWorker

SOFT_COUNTED(SoftWorker)

/* The next command buffer's place, off the list, or NULL when the worker closes. */
- (soft_place *)next {
  pthread_mutex_lock(&_lock);
  while (!_closing && !(_first && _first->committed)) pthread_cond_wait(&_changed, &_lock);
  soft_place *place = _first && _first->committed ? _first : NULL;
  if (place) {
    _first = place->next;
    if (!_first) _last = NULL;
  }
  pthread_mutex_unlock(&_lock);
  return place;
}

- (void)didFinish:(uint64_t)ticket {
  pthread_mutex_lock(&_lock);
  _finished = ticket;
  pthread_cond_broadcast(&_changed);
  pthread_mutex_unlock(&_lock);
}

static void *run(void *argument) {
  SoftWorker *worker = argument;
  soft_place *place;
  while ((place = [worker next])) {
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
    [worker didFinish:ticket];
  }
  [worker release];
  return NULL;
}

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  pthread_cond_init(&_changed, NULL);
  [self retain]; /* the thread's reference */
  if (pthread_create(&_thread, NULL, run, self) == 0) return self;
  [self release];
  [self release];
  return nil;
}

- (void)dealloc {
  pthread_mutex_destroy(&_lock);
  pthread_cond_destroy(&_changed);
  [super dealloc];
}

- (void)close {
  pthread_mutex_lock(&_lock);
  _closing = true;
  pthread_cond_broadcast(&_changed);
  pthread_mutex_unlock(&_lock);
  if ([self isCurrentThread]) {
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
  pthread_cond_broadcast(&_changed); /* the one behind may be committed and first now */
  pthread_mutex_unlock(&_lock);
  free(place);
}

- (void)commit:(soft_place *)place {
  [place->commands retain];
  pthread_mutex_lock(&_lock);
  place->committed = true;
  pthread_cond_broadcast(&_changed);
  pthread_mutex_unlock(&_lock);
}

- (void)waitUntilScheduled:(uint64_t)ticket {
  pthread_mutex_lock(&_lock);
  while (_scheduled < ticket) pthread_cond_wait(&_changed, &_lock);
  pthread_mutex_unlock(&_lock);
}

- (void)waitUntilFinished:(uint64_t)ticket {
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
  return pthread_equal(_thread, pthread_self());
}

@end
