#import "SoftCommand.h"

#import "SoftError.h"
#import "SoftFunction.h"
#import "SoftPipeline.h"

#include <string.h>

@implementation SoftCommand

- (soft_outcome)runOn:(const soft_executor *)executor text:(NSString **)text {
  (void)executor;
  *text = @"an abstract command";
  return SOFT_INTERNAL;
}

@end

@implementation SoftDispatchCommand

SOFT_COUNTED(SoftDispatchCommand)

- (instancetype)initWithKernel:(SoftKernel *)kernel dispatch:(const soft_dispatch *)dispatch bytes:(NSArray *)bytes {
  self = [super init];
  if (!self) return nil;
  _kernel = kernel;
  _dispatch = *dispatch;
  _bytes = [bytes retain];
  return self;
}

- (void)dealloc {
  [_bytes release];
  [super dealloc];
}

- (soft_outcome)runOn:(const soft_executor *)executor text:(NSString **)text {
  char *detail = NULL;
  SoftFunction *function = [_kernel function];
  soft_outcome outcome = executor->execute([function handle], &_dispatch, &detail);
  NSString *said = soft_executor_text(executor, detail, @"the executor gave no reason");
  if (outcome != SOFT_OK) *text = [NSString stringWithFormat:@"kernel '%@': %@", [function name], said];
  return outcome;
}

@end

@implementation SoftCopyCommand

SOFT_COUNTED(SoftCopyCommand)

- (instancetype)initFrom:(const void *)source to:(void *)destination length:(size_t)length {
  self = [super init];
  if (!self) return nil;
  _source = source;
  _destination = destination;
  _length = length;
  return self;
}

- (soft_outcome)runOn:(const soft_executor *)executor text:(NSString **)text {
  (void)executor, (void)text;
  memcpy(_destination, _source, _length);
  return SOFT_OK;
}

@end

@implementation SoftFillCommand

SOFT_COUNTED(SoftFillCommand)

- (instancetype)initTo:(void *)destination length:(size_t)length value:(uint8_t)value {
  self = [super init];
  if (!self) return nil;
  _destination = destination;
  _length = length;
  _value = value;
  return self;
}

- (soft_outcome)runOn:(const soft_executor *)executor text:(NSString **)text {
  (void)executor, (void)text;
  memset(_destination, _value, _length);
  return SOFT_OK;
}

@end
