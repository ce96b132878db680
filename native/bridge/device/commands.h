/* The recorder behind an iron_commands: a chain of submissions, of which the last may be open. */
#ifndef IRON_BRIDGE_COMMANDS_H
#define IRON_BRIDGE_COMMANDS_H

#include <stdatomic.h>

#import "device.h"
#import "base/object.h"
#import "base/outcome.h"
#import "submission.h"

/* What the scratch memory holds behind the operation of that number: something made of `length` bytes of `buffer` from
 * `offset` on. */
typedef struct IronScratchUse {
  const void *buffer; /* compared, not used */
  uint64_t offset, length;
  uint32_t operation;
} IronScratchUse;

@interface IronCommands : IronObject {
 @public
  IronDevice *device;
  IronOutcome *outcome;

 @private
  _Atomic(bool) recording; /* a thread is at it, and alone may touch what follows */
  NSString *label;
  uint32_t max_operations;
  IronSubmission *open; /* nil: nothing recorded since the last flush */
  IronBuffer *scratch;  /* nil: none was asked for */
  IronScratchUse scratch_use;
  _Atomic(uint32_t) operations;
  _Atomic(bool) committed;
}

/* The encoder for an operation that uses `uses`, which are noted. When this fails, nothing has changed. */
- (iron_status)prepare:(const IronUse *)uses count:(size_t)count compute:(id<MTLComputeCommandEncoder> *)encoder;
- (iron_status)prepare:(const IronUse *)uses count:(size_t)count blit:(id<MTLBlitCommandEncoder> *)encoder;
/* At least `length` bytes of the device's own for passes that hand something to the next one: the same memory each
 * time, since what is recorded here is executed in order. nil, with the error reported, when there is no memory. */
- (IronBuffer *)scratchOfLength:(uint64_t)length;
/* Whether the operation before left in it what `use` says, the number apart. */
- (bool)scratchHolds:(const IronScratchUse *)use;
/* The operation that was recorded last leaves that. */
- (void)scratchNowHolds:(const IronScratchUse *)use;
/* The operation is encoded and touched `bytes`: flushes when that is due. */
- (void)recorded:(uint64_t)bytes;

@end

/* Makes `commands` the recorder of `handle`, which no other thread may record until the variable goes out of scope.
 * Leaves the function with IRON_ERROR_INVALID_HANDLE, IRON_ERROR_BUSY or, after the commit, IRON_ERROR_STATE. */
#define IRON_RECORD(commands, handle)                                       \
  __attribute__((cleanup(IronCommandsLeave))) IronCommands *commands = nil; \
  IRON_TRY(IronCommandsEnter(handle, &commands))

iron_status IronCommandsEnter(iron_commands *handle, IronCommands **commands);
void IronCommandsLeave(IronCommands **commands);

#endif
