/* The recorder behind an iron_commands: a chain of submissions, of which the last may be open. */
#ifndef IRON_BRIDGE_COMMANDS_H
#define IRON_BRIDGE_COMMANDS_H

#include <stdatomic.h>

#import "device.h"
#import "base/object.h"
#import "base/outcome.h"
#import "submission.h"

/* Encodes what was put off. */
typedef void (*IronPutOff)(void *what, id<MTLComputeCommandEncoder> encoder);

@interface IronCommands : IronObject {
 @public
  IronDevice *device;
  IronOutcome *outcome;
  uint32_t activations; /* iron_activations, DEFAULT not among them */

 @private
  _Atomic(bool) recording; /* a thread is at it, and alone may touch what follows */
  NSString *label;
  uint32_t max_operations;
  bool flushes_itself;
  IronSubmission *open; /* nil: nothing recorded since the last flush */
  IronBuffer *scratch;  /* nil: none was asked for */
  uint64_t longest_scratch; /* that was asked for */
  IronPutOff put_off; /* NULL: nothing is put off */
  void *put_off_what; /* what it is called with */
  size_t put_off_size; /* of that memory */
  _Atomic(uint32_t) operations;
  _Atomic(bool) committed;
}

/* The encoder for an operation that uses `uses`, which are noted. When this fails, nothing has changed. */
- (iron_status)prepare:(const IronUse *)uses count:(size_t)count compute:(id<MTLComputeCommandEncoder> *)encoder;
- (iron_status)prepare:(const IronUse *)uses count:(size_t)count blit:(id<MTLBlitCommandEncoder> *)encoder;
/* At least `length` bytes of the device's own for passes that hand something to the next one: the same memory each
 * time, since what is recorded here is executed in order. nil, with the error reported, when there is no memory. */
- (IronBuffer *)scratchOfLength:(uint64_t)length;
/* Memory for what is put off, where what is put off now stays until something else is; NULL, with the error reported,
 * when there is none. What was there may have moved. */
- (void *)roomForPutOff:(size_t)size;
/* What is put off to be encoded by `encode`; NULL: nothing, or something else. */
- (void *)putOffBy:(IronPutOff)encode;
/* Notes what an operation uses that is put off, and encodes what was put off before, unless that is joined to it. When
 * this fails, nothing has changed. */
- (iron_status)prepareToPutOff:(const IronUse *)uses count:(size_t)count joining:(bool)joining;
/* What is in the memory is put off until something else is encoded. */
- (void)putOff:(IronPutOff)encode;
/* Whether what is recorded here, or elsewhere and not yet committed, writes the buffer. */
- (bool)isWritten:(const IronBuffer *)buffer;
/* The operation is encoded, or put off, and touched `bytes`: flushes when that is due. */
- (void)recorded:(uint64_t)bytes;

@end

/* Makes `commands` the recorder of `handle`, which no other thread may record until the variable goes out of scope.
 * Leaves the function with IRON_ERROR_INVALID_HANDLE, IRON_ERROR_BUSY or, after the commit, IRON_ERROR_STATE. */
#define IRON_RECORD(commands, handle)                                       \
  __attribute__((cleanup(IronCommandsLeave))) IronCommands *commands = nil; \
  IRON_TRY(IronCommandsEnter(handle, &commands))

iron_status IronCommandsEnter(iron_commands *handle, IronCommands **commands);
void IronCommandsLeave(IronCommands **commands);

/* As IronBufferAcquire, for an operand of an operation that is recorded. Commands keep the buffers that they use, which
 * is a shorter way to them. */
IronBuffer *IronCommandsAcquire(IronCommands *commands, const iron_buffer *handle, const char *argument);

#endif
