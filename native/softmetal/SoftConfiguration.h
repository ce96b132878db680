/* What softmetal.h's configuration text asks for. Never changes after it was read. */
#ifndef SOFT_CONFIGURATION_H
#define SOFT_CONFIGURATION_H

#import "SoftGpu.h"
#import "SoftObject.h"

@interface SoftConfiguration : SoftObject {
@private
  uint64_t _maxBufferLength;
  uint64_t _memoryLimit;
  uint64_t _delay;
  uint64_t _schedule;
  uint64_t _scheduledThreads;
  uint64_t _simdWidth;
  uint64_t _lateSeed;
  BOOL _isStrict, _ignoresAfterFault;
  const SoftGpu *_gpu;
  NSMutableArray *_backendOptions;
  NSMutableIndexSet *_failingAllocations;
  NSMutableDictionary *_failingCommandBuffers;
}
/* What the device itself understands; other entries are for the backend. Autoreleased. */
+ (NSArray *)keys;
/* nil and *error when the text is not of softmetal.h's form. */
- (instancetype)initWithText:(const char *)text error:(NSError **)error;
/* The other entries, as they were given. Autoreleased. */
- (NSString *)backendOptions;
- (uint64_t)maxBufferLength; /* bytes; 0: the backend's */
- (uint64_t)memoryLimit;     /* bytes */
- (uint64_t)delay;           /* microseconds */
- (uint64_t)schedule;        /* the seed of schedule.h, or 0: none */
- (uint64_t)scheduledThreads;
- (const SoftGpu *)gpu;
- (NSUInteger)simdWidth; /* threads; 0: the backend's */
/* Whether rules of Apple's that this device does not need hold as well, and breaking one ends the program. */
- (BOOL)isStrict;
/* Whether a queue executes nothing more after a fault. */
- (BOOL)ignoresAfterFault;
/* Whether the uses of command buffer `number` end, and its place in the queue is free, after its handlers. */
- (BOOL)endsLate:(uint64_t)number;
/* Whether allocation `number`, counted from 1, shall fail. */
- (BOOL)failsAllocation:(uint64_t)number;
/* The MTLCommandBufferError of command buffer `number`, counted from 1 in the order of commits, or 0. */
- (NSUInteger)errorOfCommandBuffer:(uint64_t)number;
@end

#endif
