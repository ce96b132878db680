/* id<MTLCommandQueue>. */
#ifndef SOFT_QUEUE_H
#define SOFT_QUEUE_H

#import "SoftDevice.h"
#import "SoftQueueOrder.h"

@interface SoftQueue : SoftObject <MTLCommandQueue> {
@private
  SoftDevice *_device;
  SoftQueueOrder *_order;
  NSString *_label;
  pthread_mutex_t _lock;
  pthread_cond_t _fewer;
  NSUInteger _bound; /* command buffers that may exist and not be complete */
  NSUInteger _outstanding;
  _Atomic(BOOL) _dead;
  NSMutableArray *_residencySets;
}
/* nil when the backend has no stream left. */
- (instancetype)initWithDevice:(SoftDevice *)device bound:(NSUInteger)bound;
- (SoftDevice *)softDevice;
- (SoftQueueOrder *)order;
/* After a fault, on a device that ignores what comes later. */
- (void)die;
- (BOOL)isDead;
/* A command buffer of this queue is complete, or was given up before it was committed. */
- (void)commandBufferEnded;
@end

#endif
