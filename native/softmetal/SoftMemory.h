/* A device's bytes: how many its buffers hold, and how many they may. */
#ifndef SOFT_MEMORY_H
#define SOFT_MEMORY_H

#import "SoftObject.h"

@interface SoftMemory : SoftObject {
@private
  _Atomic(uint64_t) _allocated;
  uint64_t _limit, _page;
}
/* Bytes, of all buffers and of the page that each is charged by. */
- (instancetype)initWithLimit:(uint64_t)limit page:(uint64_t)page;
/* What a buffer of that length is charged; 0: there is no such number. */
- (NSUInteger)charged:(NSUInteger)length;
- (uint64_t)allocated;
/* NO, and nothing changes, when `bytes` more would exceed the limit. */
- (BOOL)reserve:(uint64_t)bytes;
/* Takes `bytes` whatever the limit says: for memory that was given back and is wanted again, where Metal's API has no
 * way to refuse. */
- (void)reclaim:(uint64_t)bytes;
- (void)giveBack:(uint64_t)bytes;
@end

#endif
