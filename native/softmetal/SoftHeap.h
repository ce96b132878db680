/* id<MTLHeap>: memory that is taken once, for many buffers. */
#ifndef SOFT_HEAP_H
#define SOFT_HEAP_H

#import "SoftHeapSpace.h"

@class SoftDevice;

@interface SoftHeap : SoftObject <MTLHeap> {
@private
  SoftDevice *_device;
  SoftHeapSpace *_space;
  MTLResourceOptions _options;
  NSString *_label;
}
- (instancetype)initWithDevice:(SoftDevice *)device space:(SoftHeapSpace *)space options:(MTLResourceOptions)options;
@end

#endif
