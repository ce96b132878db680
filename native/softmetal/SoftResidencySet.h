/* id<MTLResidencySet>: what is added or removed counts from the next commit on. A buffer that is destroyed while a set
 * holds it raises on a strict device: whether Apple's sets keep what they hold alive is not documented. */
#ifndef SOFT_RESIDENCY_SET_H
#define SOFT_RESIDENCY_SET_H

#import "SoftDevice.h"

@interface SoftResidencySet : SoftObject {
@private
  SoftDevice *_device;
  NSString *_label;
  pthread_mutex_t _lock;
  NSMutableSet *_staged, *_committed; /* of NSValue, the buffers themselves: none is retained */
  uint64_t _requests;
  BOOL _resident;
}
- (instancetype)initWithDevice:(SoftDevice *)device label:(NSString *)label;
@end

#endif
