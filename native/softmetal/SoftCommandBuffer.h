/* id<MTLCommandBuffer>: records commands, and hands them to its queue's stream in the order of the queue. */
#ifndef SOFT_COMMAND_BUFFER_H
#define SOFT_COMMAND_BUFFER_H

#import "SoftCommand.h"
#import "SoftReferentSet.h"
#import "SoftQueueOrder.h"

@class SoftCommandBuffer, SoftDevice, SoftEncoder, SoftQueue;

/* Blocks are no objects in every Objective-C runtime, so no NSArray holds them. */
typedef struct soft_handlers {
  MTLCommandBufferHandler *blocks;
  size_t count;
} soft_handlers;

/* Commands between two events. */
typedef struct soft_segment {
  soft_part part;
  soft_command_list commands;
  SoftCommandBuffer *owner;
  SoftEvent *signaled; /* after the commands, or nil */
  uint64_t signaled_value;
} soft_segment;

@interface SoftCommandBuffer : SoftObject <MTLCommandBuffer> {
@private
  SoftQueue *_queue;
  BOOL _retainedReferences;
  NSString *_label;
  _Atomic(NSUInteger) _status;
  NSError *_error;
  _Atomic(BOOL) _stopped; /* an error is known: segments that have not begun do not run */
  uint64_t _number; /* no other command buffer of the process has it */
  soft_segment _firstSegment, *_segment; /* the first one, and the one that is recorded to */
  soft_referent_set _referents; /* what the commands use; their owners, too, with retained references */
  SoftEncoder *_encoder;        /* the open one; it keeps this object, not the other way round */
  NSString *_violation;         /* why it cannot be committed */
  soft_place _place;            /* in the queue's order */
  NSUInteger _plannedError;
  BOOL _endsLate;
  soft_handlers _scheduledHandlers, _completedHandlers;
  CFTimeInterval _kernelStart, _kernelEnd, _gpuStart, _gpuEnd;
  NSInteger _debugGroups;
}
- (instancetype)initWithQueue:(SoftQueue *)queue retainedReferences:(BOOL)retained;
- (SoftQueue *)queue;
- (SoftDevice *)softDevice;

/* For encoders, while one is open. */
/* A zeroed command at the end of what is recorded. */
- (soft_command *)addCommandFor:(SEL)selector;
/* A zeroed table that commands point to; it stays as long as they. */
- (void *)addTableOf:(size_t)count size:(size_t)size for:(SEL)selector;
/* A copy of bytes that commands point into; it stays as long as they. */
- (void *)keepBytes:(const void *)bytes length:(NSUInteger)length for:(SEL)selector;
- (void)encoderDidEnd:(SoftEncoder *)encoder;
/* The encoder is being destroyed and was never ended. */
- (void)encoderWasLost:(SoftEncoder *)encoder;

/* SoftMetalCommitWithoutWaking and SoftMetalRun. */
- (void)commitWithoutWaking;
- (void)runHere;
@end

/* Commands that are recorded refer to `referent`, which belongs to the public object `owner`: both stay while they do.
 * For encoders, while one is open; a function, since every binding of every dispatch comes here. */
void soft_command_buffer_use(SoftCommandBuffer *commands, SEL selector, SoftReferent *referent, id owner);

#endif
