#import "SoftStorage.h"

#include "SoftLock.h"
#import "SoftPages.h"
#include "schedule.h"

#include <Block.h>

@implementation SoftStorage

SOFT_COUNTED(SoftStorage)

- (instancetype)initWithPointer:(void *)pointer
                         length:(NSUInteger)length
                         memory:(SoftMemory *)memory
                        foreign:(BOOL)foreign {
  self = [super init];
  if (!self) return nil;
  _pointer = pointer;
  _length = length;
  _charged = soft_pages_rounded(length);
  _memory = [memory retain];
  _foreign = foreign;
  _state = MTLPurgeableStateNonVolatile;
  return self;
}

- (instancetype)initWithLength:(NSUInteger)length memory:(SoftMemory *)memory {
  NSUInteger rounded = soft_pages_rounded(length);
  void *pages = NULL;
  if (rounded && [memory reserve:rounded]) {
    pages = soft_pages_map(length);
    if (!pages) [memory giveBack:rounded];
  }
  if (!pages) {
    [[super init] release];
    return nil;
  }
  return [self initWithPointer:pages length:length memory:memory foreign:NO];
}

- (instancetype)initWithForeign:(void *)pointer
                         length:(NSUInteger)length
                         memory:(SoftMemory *)memory
                    deallocator:(soft_deallocator)deallocator {
  if (![memory reserve:soft_pages_rounded(length)]) {
    [[super init] release];
    return nil;
  }
  self = [self initWithPointer:pointer length:length memory:memory foreign:YES];
  if (self && deallocator) _deallocator = Block_copy(deallocator);
  return self;
}

- (void)dealloc {
  if (_foreign && _deallocator) {
    @autoreleasepool {
      _deallocator(_pointer, _length);
    }
    Block_release(_deallocator);
  }
  if (!_foreign && _pointer) soft_pages_unmap(_pointer, _length);
  [_memory giveBack:_charged];
  [_memory release];
  [super dealloc];
}

- (NSString *)kind {
  return @"buffer";
}

- (void *)pointer {
  return _pointer;
}

- (void)preferLargePages {
  if (!_foreign) soft_pages_prefer_large(_pointer, _length);
}

- (NSUInteger)allocatedSize {
  return soft_pages_rounded(_length);
}

- (NSString *)beginUse {
  soft_schedule_point();
  soft_lock(&_lock);
  MTLPurgeableState state = _state;
  if (state == MTLPurgeableStateNonVolatile) _users++;
  soft_unlock(&_lock);
  if (state == MTLPurgeableStateNonVolatile) return nil;
  return state == MTLPurgeableStateEmpty ? @"its purgeable state is Empty" : @"its purgeable state is Volatile";
}

/* With the lock held. Contents that are gone stay gone: Volatile after Empty is still Empty. */
- (void)enterState:(MTLPurgeableState)state {
  if (state == MTLPurgeableStateEmpty) {
    if (!_foreign && _charged) {
      soft_pages_discard(_pointer, _length);
      [_memory giveBack:_charged];
      _charged = 0;
    }
    _state = MTLPurgeableStateEmpty;
  } else if (state == MTLPurgeableStateNonVolatile) {
    if (!_charged) {
      _charged = soft_pages_rounded(_length);
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
  BOOL allowed = !(loses && _users);
  if (allowed) [self enterState:state];
  soft_unlock(&_lock);
  return allowed;
}

@end
