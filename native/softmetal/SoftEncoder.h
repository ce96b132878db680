/* What both kinds of encoder share: they are open from their making to endEncoding, and only then take calls. */
#ifndef SOFT_ENCODER_H
#define SOFT_ENCODER_H

#import "SoftCommandBuffer.h"

@interface SoftEncoder : SoftObject <MTLCommandEncoder> {
@protected
  SoftCommandBuffer *_commandBuffer;
  SoftDevice *_softDevice; /* the command buffer's */
  BOOL _ended;
@private
  NSString *_label;
  NSUInteger _debugGroups;
}
- (instancetype)initWithCommandBuffer:(SoftCommandBuffer *)commandBuffer;
- (SoftDevice *)softDevice;
/* Raises after endEncoding. */
- (void)requireOpen:(SEL)selector;
/* Of both protocols. */
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

#endif
