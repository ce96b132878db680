#import "SoftQueue.h"

#import "SoftCommandBuffer.h"
#import "SoftResidencySet.h"
#include "SoftLock.h"
#import "SoftValidation.h"
#include "schedule.h"

@implementation SoftQueue

SOFT_COUNTED(SoftQueue)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device bound:(NSUInteger)bound {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&_lock, NULL);
  pthread_cond_init(&_fewer, NULL);
  _device = [device retain];
  _bound = bound;
  _residencySets = [NSMutableArray new];
  _order = [[SoftQueueOrder alloc] initWithBackend:[device backend]];
  if (_order) return self;
  [self release];
  return nil;
}

- (void)dealloc {
  @autoreleasepool {
    soft_schedule_point();
    [_order close];
    [_order release];
    [_residencySets release];
    [_label release];
    [_device release];
  }
  pthread_mutex_destroy(&_lock);
  pthread_cond_destroy(&_fewer);
  [super dealloc];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (SoftDevice *)softDevice {
  return _device;
}

- (SoftQueueOrder *)order {
  return _order;
}

/* Blocks while the bound is reached, as Apple's queues do. In a handler that would be for ever, since
 * nothing completes meanwhile. */
- (id<MTLCommandBuffer>)commandBufferRetaining:(BOOL)retaining for:(SEL)selector {
  BOOL in_handler = [_order isCurrentThread];
  soft_lock(&_lock);
  while (_outstanding >= _bound && !in_handler) {
    soft_schedule_depart();
    pthread_cond_wait(&_fewer, &_lock);
  }
  BOOL room = _outstanding < _bound;
  if (room) _outstanding++;
  soft_unlock(&_lock);
  soft_schedule_point();
  if (!room) {
    soft_inconsistent(self, selector,
                      @"%lu command buffers are not complete and this thread is the one to complete them",
                      (unsigned long)_bound);
  }
  return [[[SoftCommandBuffer alloc] initWithQueue:self retainedReferences:retaining] autorelease];
}

- (id<MTLCommandBuffer>)commandBuffer {
  return [self commandBufferRetaining:YES for:_cmd];
}

- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  return [self commandBufferRetaining:NO for:_cmd];
}

- (void)addResidencySet:(id)residencySet {
  SOFT_REQUIRE([residencySet isKindOfClass:[SoftResidencySet class]], @"residencySet is not of the software device");
  soft_lock(&_lock);
  [_residencySets addObject:residencySet];
  soft_unlock(&_lock);
}

- (void)removeResidencySet:(id)residencySet {
  [[residencySet retain] autorelease];
  soft_lock(&_lock);
  BOOL known = [_residencySets containsObject:residencySet];
  [_residencySets removeObjectIdenticalTo:residencySet];
  soft_unlock(&_lock);
  SOFT_REQUIRE(known, @"residencySet is not the queue's");
}

- (void)die {
  _dead = YES;
}

- (BOOL)isDead {
  return _dead;
}

- (void)commandBufferEnded {
  soft_lock(&_lock);
  _outstanding--;
  pthread_cond_signal(&_fewer);
  soft_unlock(&_lock);
}

@end
