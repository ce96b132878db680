#import "SoftMemory.h"

#include <stdatomic.h>

@implementation SoftMemory

SOFT_COUNTED(SoftMemory)

- (instancetype)initWithLimit:(uint64_t)limit page:(uint64_t)page {
  self = [super init];
  if (!self) return nil;
  _limit = limit;
  _page = page;
  return self;
}

- (NSUInteger)charged:(NSUInteger)length {
  NSUInteger mask = (NSUInteger)_page - 1;
  return length > NSUIntegerMax - mask ? 0 : (length + mask) & ~mask;
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
