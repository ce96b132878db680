/* One recorded operation. The command buffer keeps alive what its commands refer to. */
#ifndef SOFT_COMMAND_H
#define SOFT_COMMAND_H

#import "SoftObject.h"
#include "executor.h"

@class SoftKernel;

@interface SoftCommand : SoftObject
/* Runs to the end. On anything but SOFT_OK, *text (autoreleased) says what. */
- (soft_outcome)runOn:(const soft_executor *)executor text:(NSString **)text;
@end

@interface SoftDispatchCommand : SoftCommand {
@private
  SoftKernel *_kernel;
  soft_dispatch _dispatch;
  NSArray *_bytes;
}
/* `bytes` keeps alive the NSData that bindings point into. */
- (instancetype)initWithKernel:(SoftKernel *)kernel dispatch:(const soft_dispatch *)dispatch bytes:(NSArray *)bytes;
@end

@interface SoftCopyCommand : SoftCommand {
@private
  const void *_source;
  void *_destination;
  size_t _length;
}
- (instancetype)initFrom:(const void *)source to:(void *)destination length:(size_t)length;
@end

@interface SoftFillCommand : SoftCommand {
@private
  void *_destination;
  size_t _length;
  uint8_t _value;
}
- (instancetype)initTo:(void *)destination length:(size_t)length value:(uint8_t)value;
@end

#endif
