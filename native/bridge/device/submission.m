#import "submission.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#import "base/entry.h"
#import "base/handle.h"
#include "held_locks.h"
#include "schedule.h"

/* Submissions, of every device, that were committed and that some thread has not let go of yet. */
static atomic_int unfinished;

/* Whether this thread lets go of the buffers of what is complete, which calls back the owners of wrapped memory. */
static _Thread_local bool finishing;

iron_status IronSubmissionsCheckWait(void) {
  if (!finishing) return IRON_OK;
  return IronErrorReport(IRON_ERROR_STATE, "device: this thread completes its work, in a callback, and cannot wait for it");
}

@implementation IronSubmission

IRON_COUNTED(IronSubmission)

#pragma mark Opening

static iron_status reserve_open(IronDevice *device, IronOutcome *outcome) {
  IronMonitorLock(&device->monitor);
  bool free = device->open < device->max_open, reserved = free && [outcome reserve];
  if (reserved) device->open += 1;
  IronMonitorUnlock(&device->monitor);
  if (!free)
    return IronErrorReport(IRON_ERROR_BUSY,
                           "commands: %u others of this device are being recorded, commit some first",
                           device->max_open);
  if (!reserved) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "commands: no memory to record an operation");
  return IRON_OK;
}

+ (IronSubmission *)openOn:(IronDevice *)device
                   outcome:(IronOutcome *)outcome
                     label:(NSString *)label
                    status:(iron_status *)status {
  *status = reserve_open(device, outcome);
  if (*status != IRON_OK) return nil;
  IronSubmission *submission = [[[IronSubmission alloc] init] autorelease];
  submission->device = [device retain];
  submission->open = true;
  submission->outcome = [outcome retain];
  submission->command_buffer = [[device->queue commandBuffer] retain];
  if (!submission->command_buffer) {
    *status = IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "commands: the device gave no command buffer");
    return nil;
  }
  if (label) [submission->command_buffer setLabel:label];
  return submission;
}

/* What was recorded and never committed is taken back. */
- (void)dealloc {
  held_locks_expect_none("a submission is destroyed");
  if (!IronDeviceIsInherited(device)) {
    [self endEncoding];
    [self takeBack];
    [command_buffer release];
  }
  [self releaseBuffers];
  free(touches);
  [outcome release];
  [device release];
  [super dealloc];
}

- (void)takeBack {
  if (!open) return;
  IronMonitorLock(&device->monitor);
  [self moveTouchesInFlight:false];
  device->open -= 1;
  IronMonitorUnlock(&device->monitor);
}

- (void)releaseBuffers {
  for (size_t index = 0; index < touch_count; index++) [touches[index].buffer release];
  touch_count = 0;
}

#pragma mark Encoders

- (void)endEncoding {
  [encoder endEncoding];
  [encoder release];
  encoder = nil;
  encoder_kind = IRON_ENCODER_NONE;
}

- (id)encoder:(IronEncoderKind)kind {
  if (encoder_kind == kind) return encoder;
  [self endEncoding];
  id<MTLCommandEncoder> made =
      kind == IRON_ENCODER_BLIT ? (id)[command_buffer blitCommandEncoder] : (id)[command_buffer computeCommandEncoder];
  if (!made) {
    IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "commands: the device gave no encoder");
    return nil;
  }
  encoder = [made retain];
  encoder_kind = kind;
  return encoder;
}

#pragma mark Buffers

/* Functions, since every operand of every operation comes here. */

/* Room for `count` more touches. */
static bool reserve_touches(IronSubmission *submission, size_t count) {
  if (submission->touch_count + count <= submission->touch_capacity) return true;
  size_t capacity = 2 * submission->touch_capacity + count;
  IronTouch *larger = realloc(submission->touches, capacity * sizeof *larger);
  if (!larger) return false;
  submission->touches = larger;
  submission->touch_capacity = capacity;
  return true;
}

/* Where the buffer's entry is, or where it belongs. The buffer remembers where the last submission that asked put it;
 * when several submissions record it at once, the hint is another's and the list is searched, unless no open submission
 * uses the buffer. */
static size_t touch_index(const IronSubmission *submission, const IronBuffer *buffer) {
  const IronTouch *touches = submission->touches;
  size_t index = buffer->last_touch_index, count = submission->touch_count;
  if (buffer->last_touch == submission && index < count && touches[index].buffer == buffer) return index;
  if (!buffer->hazard.recorded.readers && !buffer->hazard.recorded.writers) return count;
  for (index = 0; index < count; index++)
    if (touches[index].buffer == buffer) break;
  return index;
}

static size_t known_place(uintptr_t handle) { return IronHandleIndex((const void *)handle) % IRON_KNOWN_TOUCHES; }

IronBuffer *IronSubmissionFind(const IronSubmission *submission, const iron_buffer *handle) {
  uint32_t number = submission->known[known_place((uintptr_t)handle)];
  if (!handle || number == 0 || number > submission->touch_count) return nil;
  IronBuffer *buffer = submission->touches[number - 1].buffer;
  return atomic_load(&buffer->ticket) == (uintptr_t)handle && IronHandleIsLive(handle) ? buffer : nil;
}

/* The buffer's entry, made when there is none. Monitor held. */
static IronTouch *touch_of(IronSubmission *submission, IronBuffer *buffer) {
  size_t index = touch_index(submission, buffer);
  if (index == submission->touch_count)
    submission->touches[submission->touch_count++] = (IronTouch){.buffer = [buffer retain]};
  buffer->last_touch = submission;
  buffer->last_touch_index = index;
  submission->known[known_place(atomic_load(&buffer->ticket))] = (uint32_t)index + 1;
  return &submission->touches[index];
}

static void note_read(IronTouch *touch) {
  if (!touch->reads) touch->buffer->hazard.recorded.readers += 1;
  touch->reads = true;
  touch->inherits |= !touch->whole;
}

static void note_write(IronTouch *touch, bool whole) {
  if (!touch->writes) touch->buffer->hazard.recorded.writers += 1;
  touch->writes = true;
  touch->whole |= whole;
}

- (iron_status)touch:(const IronUse *)uses count:(size_t)count {
  if (!reserve_touches(self, count))
    return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "commands: no memory to record another operation");
  IronMonitorLock(&device->monitor);
  iron_status status = IronDeviceCheckOpen(device, "commands");
  for (size_t index = 0; index < count && status == IRON_OK; index++)
    status = IronHazardCheckRecording(&uses[index].buffer->hazard, uses[index].access, uses[index].argument);
  /* The operation's reads come before its writes, whatever the order of its operands. */
  for (size_t index = 0; index < count && status == IRON_OK; index++)
    if (uses[index].access & IRON_ACCESS_READ) note_read(touch_of(self, uses[index].buffer));
  for (size_t index = 0; index < count && status == IRON_OK; index++)
    if (uses[index].access & IRON_ACCESS_WRITE) note_write(touch_of(self, uses[index].buffer), uses[index].whole);
  IronMonitorUnlock(&device->monitor);
  return status;
}

/* The buffers are no longer recorded but in flight, or nothing of the kind any more. Monitor held. */
- (void)moveTouchesInFlight:(bool)submitted {
  for (size_t index = 0; index < touch_count; index++) {
    IronHazard *hazard = &touches[index].buffer->hazard;
    hazard->recorded.readers -= touches[index].reads;
    hazard->recorded.writers -= touches[index].writes;
    if (!submitted) continue;
    hazard->in_flight.readers += touches[index].reads;
    hazard->in_flight.writers += touches[index].writes;
  }
}

#pragma mark In flight and complete

- (void)waitForRoom {
  IronMonitorLock(&device->monitor);
  while (device->in_flight >= device->max_in_flight && !finishing) IronMonitorWait(&device->monitor);
  device->in_flight += 1;
  device->open -= 1;
  open = false;
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
}

/* Joins the submissions in flight, which hold a reference to it. */
- (void)enlist {
  [self retain];
  IronMonitorLock(&device->monitor);
  serial = ++device->last_serial;
  previous = device->last_in_flight;
  *(previous ? &previous->next : &device->first_in_flight) = self;
  device->last_in_flight = self;
  [self moveTouchesInFlight:true];
  place = outcome->command_buffers++;
  outcome->times[place] = (IronSubmissionTimes){.operations = operations};
  device->memory.counters.command_buffers += 1;
  outcome->incomplete += 1;
  IronMonitorUnlock(&device->monitor);
}

- (void)delist {
  *(previous ? &previous->next : &device->first_in_flight) = next;
  *(next ? &next->previous : &device->last_in_flight) = previous;
  next = previous = nil;
}

/* Judges it by the buffers it read, marks the ones it wrote, tells the outcome. Monitor held; all earlier ones are
 * retired. */
- (void)retire {
  retired = true;
  for (size_t index = 0; index < touch_count && failure.status == IRON_OK; index++)
    if (touches[index].inherits && touches[index].buffer->hazard.poison != IRON_OK)
      failure = IronFailureMake(IRON_ERROR_POISONED, "it read a buffer that a failed submission should have written");
  for (size_t index = 0; index < touch_count; index++) {
    IronTouch *touch = &touches[index];
    IronHazard *hazard = &touch->buffer->hazard;
    hazard->in_flight.readers -= touch->reads;
    hazard->in_flight.writers -= touch->writes;
    if (touch->writes && failure.status != IRON_OK) hazard->poison = failure.status;
    if (touch->whole && failure.status == IRON_OK) hazard->poison = IRON_OK;
  }
  outcome->device_time += device_end - device_start;
  uint64_t since = device_start > device->worked_until ? device_start : device->worked_until;
  if (device_end > since) {
    atomic_fetch_add(&device->worked, device_end - since);
    device->worked_until = device_end;
  }
  outcome->times[place] = (IronSubmissionTimes){.start = device_start,
                                                .end = device_end,
                                                .operations = operations,
                                                .status = failure.status,
                                                .complete = true};
  if (failure.status == IRON_OK) return;
  if (outcome->abandoned)
    IronFailuresAdd(&device->failures, &failure);
  else if (outcome->failure.status == IRON_OK)
    outcome->failure = failure;
}

/* Whoever completes the oldest submission in flight retires it and those after it that are complete already. The
 * buffers are let go before anybody is woken, so that the memory figures are right for whoever waited. */
static void finish(IronSubmission *submission, IronFailure failure, uint64_t start, uint64_t stop) {
  IronDevice *device = [submission->device retain];
  IronSubmission *retired = nil, **end = &retired;
  soft_schedule_point();
  IronMonitorLock(&device->monitor);
  submission->complete = true;
  submission->failure = failure;
  submission->device_start = start;
  submission->device_end = stop > start ? stop : start;
  for (IronSubmission *each = device->first_in_flight; each && each->complete; each = each->next) {
    if (each->retired) continue; /* by another thread, about to take it off the list */
    [each retire];
    *end = each;
    end = &each->next_retired;
  }
  IronMonitorUnlock(&device->monitor);

  soft_schedule_point();
  finishing = true;
  for (IronSubmission *each = retired; each; each = each->next_retired) [each releaseBuffers];
  finishing = false;
  soft_schedule_point();

  IronMonitorLock(&device->monitor);
  for (IronSubmission *each = retired; each; each = each->next_retired) {
    [each delist];
    each->outcome->incomplete -= 1;
    device->in_flight -= 1;
  }
  IronMonitorSignal(&device->monitor);
  IronMonitorUnlock(&device->monitor);

  soft_schedule_point();
  while (retired) {
    IronSubmission *each = retired;
    retired = each->next_retired;
    [each release];
  }
  [device release];
}

static uint64_t nanoseconds(double seconds) { return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0; }

/* Called on a thread of Metal's, where nothing may be thrown. */
static void completed(IronSubmission *submission, id<MTLCommandBuffer> commands) {
  IRON_POOL {
    IronFailure failure = {.status = IRON_OK};
    double start = 0, end = 0; /* seconds */
    @try {
      start = [commands GPUStartTime];
      end = [commands GPUEndTime];
      if ([commands status] != MTLCommandBufferStatusCompleted) failure = IronFailureFromError([commands error]);
    } @catch (id raised) {
      failure = IronFailureMake(IRON_ERROR_INTERNAL, IronErrorDescribeException(raised));
    }
    finish(submission, failure, nanoseconds(start), nanoseconds(end));
  }
  atomic_fetch_sub(&unfinished, 1);
}

void IronSubmissionsSettle(uint64_t timeout) {
  const struct timespec pause = {.tv_nsec = 100000};
  uint64_t deadline = IronDeadlineAfter(timeout);
  soft_schedule_depart();
  while (atomic_load(&unfinished) && IronNow() < deadline) nanosleep(&pause, NULL);
  soft_schedule_point();
}

/* Between its joining those in flight and this, no other submission is committed. */
- (void)hand:(IronRunner)runner {
  /* A plain pointer: Apple's runtime would retain an object that a block captures and GNUstep's does not. The list of
   * those in flight holds the reference. */
  soft_schedule_point();
  void *submission = self;
  [command_buffer addCompletedHandler:^(id<MTLCommandBuffer> commands) {
    completed(submission, commands);
  }];
  if (runner == IRON_RUNNER_CALLER && device->extras->commit_without_waking)
    device->extras->commit_without_waking(command_buffer);
  else
    [command_buffer commit];
}

void IronSubmissionsForget(void) { atomic_store(&unfinished, 0); }

- (void)commit:(IronRunner)runner {
  [self endEncoding];
  [self waitForRoom];
  IronFailure refused = {.status = IRON_OK};
  IronGateEnter(&device->commit_order);
  atomic_fetch_add(&unfinished, 1);
  [self enlist];
  @try {
    [self hand:runner];
  } @catch (id raised) {
    refused = IronFailureMake(IRON_ERROR_INTERNAL, IronErrorDescribeException(raised));
  }
  IronGateLeave(&device->commit_order);
  if (refused.status == IRON_OK) return;
  /* It never reached the device, which will not call the handler. */
  finish(self, refused, 0, 0);
  atomic_fetch_sub(&unfinished, 1);
}

/* Whether a thread that waits executes what it waits for. While a processor is spare, the device's thread spins there,
 * and is faster than the waiting thread. */
static bool waiter_works(const IronDevice *device, IronRunner runner) {
  if (!device->extras->run) return false;
  return runner == IRON_RUNNER_CALLER || IronMonitorWaitBudget(&device->monitor) == 0;
}

/* Runs what there is up to that submission, if it is one. Enters with the monitor held and leaves it. */
static void run_until(IronSubmission *submission, IronDevice *device) {
  id<MTLCommandBuffer> commands = submission ? [submission->command_buffer retain] : nil;
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  if (commands) device->extras->run(commands);
  [commands release];
}

void IronSubmissionsRun(IronDevice *device, IronOutcome *outcome, IronRunner runner) {
  if (!waiter_works(device, runner)) return;
  IronMonitorLock(&device->monitor);
  IronSubmission *submission = device->last_in_flight;
  while (submission && submission->outcome != outcome) submission = submission->previous;
  run_until(submission, device);
}

static bool stands_against(const IronSubmission *submission, iron_access access, const IronBuffer *buffer) {
  if (submission->retired) return false;
  for (size_t index = 0; index < submission->touch_count; index++) {
    const IronTouch *touch = &submission->touches[index];
    if (touch->buffer == buffer) return touch->writes || (access & IRON_ACCESS_WRITE);
  }
  return false;
}

void IronSubmissionsRunFor(IronBuffer *buffer, iron_access access) {
  IronDevice *device = buffer->device;
  if (!waiter_works(device, IRON_RUNNER_DEVICE)) return;
  IronMonitorLock(&device->monitor);
  bool waits = IronHazardWaits(&buffer->hazard, access);
  IronMonitorUnlock(&device->monitor);
  if (!waits) return;
  /* Not between a submission's joining those in flight and its commit. */
  IronGateEnter(&device->commit_order);
  IronMonitorLock(&device->monitor);
  IronSubmission *submission = device->last_in_flight;
  while (submission && !stands_against(submission, access, buffer)) submission = submission->previous;
  IronGateLeave(&device->commit_order);
  run_until(submission, device);
}

@end
