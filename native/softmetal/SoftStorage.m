#import "SoftStorage.h"

#include "SoftLock.h"
#include "schedule.h"

#include <Block.h>

@implementation SoftStorage

SOFT_COUNTED(SoftStorage)

/* Without memory yet. */
- (instancetype)initWithLength:(NSUInteger)length backend:(SoftBackend *)backend memory:(SoftMemory *)memory {
  self = [super init];
  if (!self) return nil;
  _backend = [backend retain];
  _memory = [memory retain];
  _length = length;
  _state = MTLPurgeableStateNonVolatile;
  NSUInteger charged = [memory charged:length];
  if (charged && [memory reserve:charged]) _charged = charged;
  return self;
}

/* Itself, when the backend gave memory. */
- (instancetype)completed:(soft_outcome)outcome {
  if (outcome == SOFT_OK) {
    _contents = [_backend table]->buffer_contents(_buffer);
    return self;
  }
  _foreign = NO; /* nothing was taken over */
  [self release];
  return nil;
}

- (instancetype)initWithLength:(NSUInteger)length
                       storage:(soft_storage)storage
                       backend:(SoftBackend *)backend
                        memory:(SoftMemory *)memory {
  self = [self initWithLength:length backend:backend memory:memory];
  if (!self) return nil;
  soft_outcome outcome = SOFT_OUT_OF_MEMORY;
  if (_charged) outcome = [backend table]->buffer_create([backend handle], length, storage, &_buffer, NULL);
  return [self completed:outcome];
}

- (instancetype)initWithForeign:(void *)pointer
                         length:(NSUInteger)length
                        backend:(SoftBackend *)backend
                         memory:(SoftMemory *)memory
                    deallocator:(soft_deallocator)deallocator {
  self = [self initWithLength:length backend:backend memory:memory];
  if (!self) return nil;
  _foreign = YES;
  soft_outcome outcome = SOFT_OUT_OF_MEMORY;
  if (_charged) outcome = [backend table]->buffer_import([backend handle], pointer, length, false, &_buffer, NULL);
  self = [self completed:outcome];
  if (self && deallocator) _deallocator = Block_copy(deallocator);
  return self;
}

- (void)dealloc {
  void *contents = _contents;
  if (_buffer) [_backend table]->buffer_release(_buffer);
  if (_deallocator) {
    @autoreleasepool {
      _deallocator(contents, _length);
    }
    Block_release(_deallocator);
  }
  [_memory giveBack:_charged];
  [_memory release];
  [_backend release];
  [super dealloc];
}

- (NSString *)kind {
  return @"buffer";
}

- (soft_buffer *)buffer {
  return _buffer;
}

- (void *)contents {
  return _contents;
}

- (uint64_t)address {
  return [_backend table]->buffer_address(_buffer);
}

- (void)expectReads {
  [_backend table]->buffer_expect_reads(_buffer);
}

- (soft_outcome)writeWeights:(const soft_matrix *)matrix
                       first:(uint64_t)first
                       count:(uint64_t)count
                        rows:(const void *)rows
                      length:(uint64_t)length
                        text:(char **)text {
  return [_backend table]->weights_write(_buffer, matrix, first, count, rows, length, text);
}

- (soft_outcome)readWeights:(const soft_matrix *)matrix
                      first:(uint64_t)first
                      count:(uint64_t)count
                       rows:(void *)rows
                     length:(uint64_t)length
                       text:(char **)text {
  return [_backend table]->weights_read(_buffer, matrix, first, count, rows, length, text);
}

- (NSUInteger)allocatedSize {
  return [_memory charged:_length];
}

- (NSString *)beginUse {
  soft_schedule_point();
  soft_lock(&_lock);
  MTLPurgeableState state = _state;
  if (state == MTLPurgeableStateNonVolatile) atomic_fetch_add(&_uses->count, 1);
  soft_unlock(&_lock);
  if (state == MTLPurgeableStateNonVolatile) return nil;
  return state == MTLPurgeableStateEmpty ? @"its purgeable state is Empty" : @"its purgeable state is Volatile";
}

/* Gives the memory back. What a backend cannot give back stays charged. With the lock held. */
- (void)discard {
  if (_foreign || !_charged || [_backend table]->buffer_discard(_buffer, NULL) != SOFT_OK) return;
  [_memory giveBack:_charged];
  _charged = 0;
}

/* With the lock held. Contents that are gone stay gone: Volatile after Empty is still Empty. */
- (void)enterState:(MTLPurgeableState)state {
  if (state == MTLPurgeableStateEmpty) {
    [self discard];
    _state = MTLPurgeableStateEmpty;
  } else if (state == MTLPurgeableStateNonVolatile) {
    if (!_charged) {
      _charged = [self allocatedSize];
      [_memory reclaim:_charged];
    }
    _state = MTLPurgeableStateNonVolatile;
  } else if (state == MTLPurgeableStateVolatile && _state != MTLPurgeableStateEmpty) {
    _state = MTLPurgeableStateVolatile;
  }
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
