#import "commands.h"

#include <stdlib.h>

#import "base/entry.h"
#import "base/handle.h"
#import "base/structs.h"
#import "base/text.h"

/* Whether commands that need `length` bytes of scratch memory are like those that needed `usual`, a prompt's for
 * instance, and not like a token's. */
static bool needs_alike(uint64_t length, uint64_t usual) { return length >= usual / 4; }

@implementation IronCommands

IRON_COUNTED(IronCommands)

/* The last handle is gone and no thread records: what was not submitted is dropped, and what fails from now on nobody
 * waits for. */
- (void)dealloc {
  if (device && needs_alike(longest_scratch, atomic_load(&device->usual_scratch)))
    atomic_store(&device->usual_scratch, longest_scratch);
  [open release];
  [scratch release];
  free(put_off_what);
  if (outcome && !IronDeviceIsInherited(device)) {
    IronMonitorLock(&device->monitor);
    if (outcome->failure.status != IRON_OK && !outcome->told) IronFailuresAdd(&device->failures, &outcome->failure);
    outcome->abandoned = true;
    IronMonitorUnlock(&device->monitor);
  }
  [outcome release];
  [label release];
  [device release];
  [super dealloc];
}

#pragma mark Recording

iron_status IronCommandsEnter(iron_commands *handle, IronCommands **result) {
  IronCommands *commands = IronHandleTake(handle, IRON_HANDLE_COMMANDS, "commands");
  if (!commands) return IRON_ERROR_INVALID_HANDLE;
  if (atomic_exchange(&commands->recording, true)) {
    [commands release];
    return IronErrorReport(IRON_ERROR_BUSY, "commands: another thread records them");
  }
  *result = commands;
  IRON_TRY(IronDeviceCheckOpen(commands->device, "commands"));
  if (atomic_load(&commands->committed))
    return IronErrorReport(IRON_ERROR_STATE, "commands: they are committed already");
  return IRON_OK;
}

void IronCommandsLeave(IronCommands **commands) {
  if (!*commands) return;
  atomic_store(&(*commands)->recording, false);
  [*commands release];
}

/* Commands that flush themselves may let go of a buffer in the middle of an operation of several passes. */
IronBuffer *IronCommandsAcquire(IronCommands *commands, const iron_buffer *handle, const char *argument) {
  bool keeps = commands->open && !commands->flushes_itself;
  IronBuffer *used = keeps ? IronSubmissionFind(commands->open, handle) : nil;
  if (!used) return IronBufferAcquire(handle, argument);
  return IronDeviceCheckOpen(used->device, argument) == IRON_OK ? used : nil;
}

- (iron_status)prepare:(const IronUse *)uses count:(size_t)count kind:(IronEncoderKind)kind encoder:(id *)encoder {
  iron_status status = IRON_OK;
  [self encodePutOff];
  IronSubmission *submission =
      open ? open : [IronSubmission openOn:device outcome:outcome label:label status:&status];
  if (!submission) return status;
  *encoder = [submission encoder:kind];
  if (!*encoder) return IRON_ERROR_OUT_OF_MEMORY;
  status = [submission touch:uses count:count];
  if (status == IRON_OK && !open) open = [submission retain];
  return status;
}

- (iron_status)prepare:(const IronUse *)uses count:(size_t)count compute:(id<MTLComputeCommandEncoder> *)encoder {
  return [self prepare:uses count:count kind:IRON_ENCODER_COMPUTE encoder:encoder];
}

- (iron_status)prepare:(const IronUse *)uses count:(size_t)count blit:(id<MTLBlitCommandEncoder> *)encoder {
  return [self prepare:uses count:count kind:IRON_ENCODER_BLIT encoder:encoder];
}

- (IronBuffer *)makeScratch:(uint64_t)length {
  const iron_buffer_options options = {
      .category = IRON_CATEGORY_SCRATCH, .storage = IRON_STORAGE_PRIVATE, .label = "scratch", .pooled = true};
  return IronBufferMake(device, length, &options);
}

/* What grows is another buffer, and those before it stay in use until what was recorded has ended. So the first is as
 * long as the last commands needed, and each is as long as the pool's. */
- (IronBuffer *)scratchOfLength:(uint64_t)length {
  length = IronPoolSizeClass(length);
  if (length > longest_scratch) longest_scratch = length;
  if (scratch && scratch->length >= length) return scratch;
  uint64_t usual = atomic_load(&device->usual_scratch);
  bool as_usual = !scratch && length < usual && needs_alike(length, usual);
  IronBuffer *longer = as_usual ? [self makeScratch:usual] : nil;
  if (!longer) longer = [self makeScratch:length];
  if (!longer) return nil;
  [scratch release];
  scratch = [longer retain];
  return scratch;
}

- (void *)roomForPutOff:(size_t)size {
  if (size <= put_off_size) return put_off_what;
  void *larger = realloc(put_off_what, size);
  if (!larger) {
    IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "commands: no memory to record another operation");
    return NULL;
  }
  put_off_what = larger;
  put_off_size = size;
  return larger;
}

- (void *)putOffBy:(IronPutOff)encode {
  return put_off == encode ? put_off_what : NULL;
}

- (iron_status)prepareToPutOff:(const IronUse *)uses count:(size_t)count joining:(bool)joining {
  id encoder;
  if (!joining) return [self prepare:uses count:count kind:IRON_ENCODER_COMPUTE encoder:&encoder];
  return [open touch:uses count:count];
}

- (void)putOff:(IronPutOff)encode {
  put_off = encode;
}

/* The submission's encoder is one of kernels since it was put off. */
- (void)encodePutOff {
  if (!put_off) return;
  put_off(put_off_what, [open encoder:IRON_ENCODER_COMPUTE]);
  put_off = NULL;
}

- (void)flush:(IronRunner)runner {
  if (!open) return;
  [self encodePutOff];
  [open commit:runner];
  [open release];
  open = nil;
}

- (bool)isWritten:(const IronBuffer *)buffer {
  IronMonitorLock(&device->monitor);
  bool written = buffer->hazard.recorded.writers > 0;
  IronMonitorUnlock(&device->monitor);
  return written;
}

- (void)recorded:(uint64_t)bytes {
  atomic_fetch_add(&operations, 1);
  IronMemoryCountOperation(&device->memory);
  open->operations += 1;
  open->bytes = open->bytes > UINT64_MAX - bytes ? UINT64_MAX : open->bytes + bytes;
  if (flushes_itself && (open->operations >= max_operations || open->bytes >= device->max_flush_bytes))
    [self flush:IRON_RUNNER_DEVICE];
}

#pragma mark State

- (void)describe:(iron_commands_info *)info {
  IronMonitorLock(&device->monitor);
  bool done = outcome->incomplete == 0;
  info->operations = atomic_load(&operations);
  info->command_buffers = outcome->command_buffers;
  info->device_time = outcome->device_time;
  if (!atomic_load(&committed))
    info->state = IRON_COMMANDS_RECORDING;
  else if (!done)
    info->state = IRON_COMMANDS_SUBMITTED;
  else
    info->state = outcome->failure.status == IRON_OK ? IRON_COMMANDS_COMPLETED : IRON_COMMANDS_FAILED;
  IronMonitorUnlock(&device->monitor);
}

/* `runner`: for whom they were committed. */
- (iron_status)wait:(uint64_t)timeout runner:(IronRunner)runner {
  if (!atomic_load(&committed))
    return IronErrorReport(IRON_ERROR_STATE, "commands: they are not committed, there is nothing to wait for");
  IRON_TRY(IronSubmissionsCheckWait());
  /* Work that this thread does itself could not be left at a deadline. */
  if (timeout == UINT64_MAX) IronSubmissionsRun(device, outcome, runner);
  uint64_t deadline = IronDeadlineAfter(timeout);
  bool in_time = true;
  IronFailure failure = {.status = IRON_OK};
  IronMonitorLock(&device->monitor);
  while (in_time && outcome->incomplete > 0) in_time = IronMonitorWaitUntil(&device->monitor, deadline);
  bool complete = outcome->incomplete == 0;
  if (complete && !outcome->told) {
    failure = outcome->failure;
    outcome->told = true;
  }
  IronMonitorUnlock(&device->monitor);
  if (!complete)
    return IronErrorReport(IRON_ERROR_TIMEOUT, "commands: not complete after %llu ns", (unsigned long long)timeout);
  if (failure.status == IRON_OK) return IRON_OK;
  return IronErrorReport(failure.status, "commands: %s", failure.text);
}

#pragma mark Entries

iron_status iron_commands_begin(iron_device *device_handle, const iron_commands_options *given,
                                iron_commands **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "commands");
    iron_commands_options options;
    IRON_READ_OPTIONAL_STRUCT(options, given, "options");
    IronDevice *device = IronDeviceAcquire(device_handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if (options.activations > IRON_ACTIVATIONS_AUTOMATIC)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options.activations: is %u, 0 to 3 are possible",
                             options.activations);
    NSString *label;
    IRON_TRY(IronTextRead(&label, options.label, "options.label"));
    IronCommands *commands = [[[IronCommands alloc] init] autorelease];
    commands->device = [device retain];
    commands->outcome = [[IronOutcome alloc] init];
    commands->label = [label retain];
    commands->activations = options.activations ? options.activations : IRON_ACTIVATIONS_FLOAT;
    commands->flushes_itself = options.max_operations != UINT32_MAX;
    commands->max_operations = options.max_operations ? options.max_operations : device->max_operations;
    return IronHandleCreate(commands, IRON_HANDLE_COMMANDS, (void **)handle);
  } IRON_LEAVE
}

iron_status iron_commands_flush(iron_commands *handle) {
  IRON_ENTRY {
    IRON_RECORD(commands, handle);
    [commands flush:IRON_RUNNER_DEVICE];
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_commands_commit(iron_commands *handle) {
  IRON_ENTRY {
    IRON_RECORD(commands, handle);
    [commands flush:IRON_RUNNER_DEVICE];
    atomic_store(&commands->committed, true);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_commands_run(iron_commands *handle) {
  IRON_ENTRY {
    IRON_RECORD(commands, handle);
    [commands flush:IRON_RUNNER_CALLER];
    atomic_store(&commands->committed, true);
    return [commands wait:UINT64_MAX runner:IRON_RUNNER_CALLER];
  } IRON_LEAVE
}

iron_status iron_commands_wait(iron_commands *handle, uint64_t timeout) {
  IRON_ENTRY {
    IronCommands *commands = IronHandleAcquire(handle, IRON_HANDLE_COMMANDS, "commands");
    if (!commands) return IRON_ERROR_INVALID_HANDLE;
    if (IronDeviceIsInherited(commands->device)) return IronDeviceCheckOpen(commands->device, "commands");
    return [commands wait:timeout runner:IRON_RUNNER_DEVICE];
  } IRON_LEAVE
}

iron_status iron_commands_describe(iron_commands *handle, iron_commands_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronCommands *commands = IronHandleAcquire(handle, IRON_HANDLE_COMMANDS, "commands");
    if (!commands) return IRON_ERROR_INVALID_HANDLE;
    if (IronDeviceIsInherited(commands->device)) return IronDeviceCheckOpen(commands->device, "commands");
    iron_commands_info full;
    [commands describe:&full];
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_commands_submission(iron_commands *handle, uint32_t index, iron_submission *submission) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(submission, "submission");
    IronCommands *commands = IronHandleAcquire(handle, IRON_HANDLE_COMMANDS, "commands");
    if (!commands) return IRON_ERROR_INVALID_HANDLE;
    IronDevice *device = commands->device;
    if (IronDeviceIsInherited(device)) return IronDeviceCheckOpen(device, "commands");
    IronSubmissionTimes times = {.complete = false};
    IronMonitorLock(&device->monitor);
    uint32_t count = commands->outcome->command_buffers;
    if (index < count) times = commands->outcome->times[index];
    IronMonitorUnlock(&device->monitor);
    if (index >= count)
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "index: %u, of these commands %u were submitted", index, count);
    if (!times.complete) return IronErrorReport(IRON_ERROR_STATE, "commands: submission %u is not complete", index);
    const iron_submission full = {
        .status = times.status, .operations = times.operations, .start = times.start, .end = times.end};
    IRON_WRITE_STRUCT(submission, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_commands_retain(iron_commands *handle) {
  IRON_ENTRY {
    return IronHandleRetain(handle, IRON_HANDLE_COMMANDS, "commands");
  } IRON_LEAVE
}

iron_status iron_commands_release(iron_commands *handle) {
  IRON_ENTRY {
    return IronHandleRelease(handle, IRON_HANDLE_COMMANDS, "commands");
  } IRON_LEAVE
}

@end
