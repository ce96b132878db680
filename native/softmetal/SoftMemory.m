#import "SoftMemory.h"

#include <stdatomic.h>

@implementation SoftMemory

SOFT_COUNTED(SoftMemory)

- (instancetype)initWithLimit:(uint64_t)limit {
  self = [super init];
  if (self) _limit = limit;
  return self;
}

- (uint64_t)allocated {
  return atomic_load(&_allocated);
}

- (BOOL)reserve:(uint64_t)bytes {
  uint64_t allocated = atomic_load(&_allocated);
  do {
    if (allocated > _limit || bytes > _limit - allocated) return NO;
  } while (!atomic_compare_exchange_weak(&_allocated, &allocated, allocated + bytes));
  return YES;
}

- (void)reclaim:(uint64_t)bytes {
  atomic_fetch_add(&_allocated, bytes);
}

- (void)giveBack:(uint64_t)bytes {
  atomic_fetch_sub(&_allocated, bytes);
}

@end
