/* id<MTLCommandQueue>. */
#ifndef SOFT_QUEUE_H
#define SOFT_QUEUE_H

#import "SoftDevice.h"
#import "SoftWorker.h"

@interface SoftQueue : SoftObject <MTLCommandQueue> {
@private
  SoftDevice *_device;
  SoftWorker *_worker;
  NSString *_label;
  pthread_mutex_t _lock;
  pthread_cond_t _fewer;
  NSUInteger _bound; /* command buffers that may exist and not be complete */
  NSUInteger _outstanding;
}
/* nil when the system has no thread left for the queue. */
- (instancetype)initWithDevice:(SoftDevice *)device bound:(NSUInteger)bound;
- (SoftDevice *)softDevice;
- (SoftWorker *)worker;
/* A command buffer of this queue is complete, or was given up before it was committed. */
- (void)commandBufferEnded;
@end

#endif
