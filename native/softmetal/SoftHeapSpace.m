#import "SoftHeapSpace.h"

#include "SoftLock.h"
#include "schedule.h"

static NSUInteger aligned(NSUInteger offset, NSUInteger alignment) {
  NSUInteger rest = offset % alignment;
  return rest ? offset + (alignment - rest) : offset;
}

@implementation SoftHeapSpace

SOFT_COUNTED(SoftHeapSpace)

- (instancetype)initWithSize:(NSUInteger)size backend:(SoftBackend *)backend memory:(SoftMemory *)memory {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  _backend = [backend retain];
  _memory = [memory retain];
  _state = MTLPurgeableStateNonVolatile;
  _size = [memory charged:size];
  _uses = soft_uses_new();
  if (_uses && _size && [memory reserve:_size]) {
    _charged = _size;
    return self;
  }
  [self release];
  return nil;
}

- (void)dealloc {
  [_memory giveBack:_charged];
  pthread_mutex_destroy(&_lock);
  soft_uses_release(_uses);
  [_memory release];
  [_backend release];
  [super dealloc];
}

- (NSUInteger)size {
  return _size;
}

- (NSUInteger)used {
  soft_lock(&_lock);
  NSUInteger used = _used;
  soft_unlock(&_lock);
  return used;
}

- (NSUInteger)charged {
  soft_lock(&_lock);
  NSUInteger charged = _charged;
  soft_unlock(&_lock);
  return charged;
}

- (NSUInteger)longestFreeAt:(NSUInteger)alignment {
  NSUInteger longest = 0, end = 0;
  soft_lock(&_lock);
  for (const soft_heap_range *range = _first;; range = range->next) {
    NSUInteger start = aligned(end, alignment), limit = range ? range->offset : _size;
    if (start >= end && start < limit && limit - start > longest) longest = limit - start;
    if (!range) break;
    end = range->offset + range->length;
  }
  soft_unlock(&_lock);
  return longest;
}

- (soft_heap_range *)take:(NSUInteger)length {
  soft_heap_range *taken = calloc(1, sizeof *taken);
  if (!taken) return NULL;
  NSUInteger start = 0;
  soft_lock(&_lock);
  soft_heap_range **place = &_first;
  while (*place && (*place)->offset - start < length) {
    start = (*place)->offset + (*place)->length;
    place = &(*place)->next;
  }
  BOOL fits = *place || _size - start >= length;
  if (fits) {
    *taken = (soft_heap_range){.offset = start, .length = length, .next = *place};
    *place = taken;
    _used += length;
  }
  soft_unlock(&_lock);
  if (fits) return taken;
  free(taken);
  return NULL;
}

- (void)giveBack:(soft_heap_range *)range {
  soft_lock(&_lock);
  soft_heap_range **place = &_first;
  while (*place != range) place = &(*place)->next;
  *place = range->next;
  _used -= range->length;
  soft_unlock(&_lock);
  free(range);
}

- (void)setBuffer:(soft_buffer *)buffer of:(soft_heap_range *)range {
  soft_lock(&_lock);
  range->buffer = buffer;
  soft_unlock(&_lock);
}

- (soft_uses *)uses {
  return _uses;
}

- (NSString *)beginUse {
  soft_schedule_point();
  soft_lock(&_lock);
  MTLPurgeableState state = _state;
  if (state == MTLPurgeableStateNonVolatile) atomic_fetch_add(&_uses->count, 1);
  soft_unlock(&_lock);
  if (state == MTLPurgeableStateNonVolatile) return nil;
  return state == MTLPurgeableStateEmpty ? @"its heap's purgeable state is Empty"
                                         : @"its heap's purgeable state is Volatile";
}

/* Memory that a backend cannot give back stays charged. With the lock held. */
- (void)enterState:(MTLPurgeableState)state {
  if (state == MTLPurgeableStateEmpty && _state != MTLPurgeableStateEmpty) {
    BOOL gone = YES;
    for (const soft_heap_range *range = _first; range; range = range->next)
      if (range->buffer) gone &= [_backend table]->buffer_discard(range->buffer, NULL) == SOFT_OK;
    if (gone) {
      [_memory giveBack:_charged];
      _charged = 0;
    }
  } else if (state == MTLPurgeableStateNonVolatile && !_charged) {
    _charged = _size;
    [_memory reclaim:_charged];
  }
  BOOL stays = state == MTLPurgeableStateVolatile && _state == MTLPurgeableStateEmpty;
  if (state != MTLPurgeableStateKeepCurrent && !stays) _state = state;
}

- (BOOL)changeState:(MTLPurgeableState)state previous:(MTLPurgeableState *)previous {
  soft_schedule_point();
  BOOL loses = state == MTLPurgeableStateVolatile || state == MTLPurgeableStateEmpty;
  soft_lock(&_lock);
  *previous = _state;
  BOOL allowed = !(loses && atomic_load(&_uses->count) > 0);
  if (allowed) [self enterState:state];
  soft_unlock(&_lock);
  return allowed;
}

@end
