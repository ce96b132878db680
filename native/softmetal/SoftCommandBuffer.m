#import "SoftCommandBuffer.h"

#import "MetalCapture.h"
#import "SoftBlitEncoder.h"
#import "SoftComputeEncoder.h"
#import "SoftError.h"
#import "SoftEvent.h"
#import "SoftQueue.h"
#import "SoftValidation.h"
#include "schedule.h"

#include <Block.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Seconds, on the clock that Apple's figures use: it never jumps and has no meaning of its own. */
static CFTimeInterval now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (CFTimeInterval)time.tv_sec + 1e-9 * (CFTimeInterval)time.tv_nsec;
}

static void sleep_for(CFTimeInterval seconds) {
  if (seconds <= 0) return;
  struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static BOOL add_handler(soft_handlers *handlers, MTLCommandBufferHandler block) {
  MTLCommandBufferHandler *blocks = realloc(handlers->blocks, (handlers->count + 1) * sizeof *blocks);
  if (!blocks) return NO;
  blocks[handlers->count++] = Block_copy(block);
  handlers->blocks = blocks;
  return YES;
}

static void call_handlers(const soft_handlers *handlers, SoftCommandBuffer *commands) {
  for (size_t i = 0; i < handlers->count; i++) {
    @autoreleasepool {
      handlers->blocks[i]((id<MTLCommandBuffer>)commands);
    }
  }
}

static void drop_handlers(soft_handlers *handlers) {
  for (size_t i = 0; i < handlers->count; i++) Block_release(handlers->blocks[i]);
  free(handlers->blocks);
  *handlers = (soft_handlers){0};
}

/* Uses that end after the handlers. */
typedef struct soft_late_uses {
  soft_uses **uses;
  size_t count;
} soft_late_uses;

static void end_uses(soft_late_uses *late) {
  for (size_t i = 0; i < late->count; i++) {
    soft_schedule_point();
    atomic_fetch_sub(&late->uses[i]->count, 1);
    soft_uses_release(late->uses[i]);
  }
  free(late->uses);
}

static bool begin(void *context);
static bool begin_next(void *context);
static void complete_part(void *context, const soft_result *result);
static void complete(void *context, const soft_result *result);

@implementation SoftCommandBuffer

SOFT_COUNTED(SoftCommandBuffer)

@synthesize label = _label;

- (instancetype)initWithQueue:(SoftQueue *)queue retainedReferences:(BOOL)retained {
  static _Atomic(uint64_t) newest;
  self = [super init];
  if (!self) return nil;
  _number = atomic_fetch_add(&newest, 1) + 1;
  _queue = [queue retain];
  _retainedReferences = retained;
  _segment = &_firstSegment;
  _firstSegment.owner = self;
  return self;
}

- (void)dealloc {
  @autoreleasepool {
    if (self.status < MTLCommandBufferStatusCommitted) {
      if (_place.number) [[_queue order] leave:&_place];
      [_queue commandBufferEnded];
    }
    [self dropHandlers];
    [self dropReferences];
    [_error release];
    [_label release];
    [_violation release];
  }
  [_queue release];
  [super dealloc];
}

- (void)dropHandlers {
  drop_handlers(&_scheduledHandlers);
  drop_handlers(&_completedHandlers);
}

- (void)dropReferences {
  for (soft_segment *segment = &_firstSegment; segment;) {
    soft_segment *next = (soft_segment *)segment->part.next;
    soft_command_list_clear(&segment->commands);
    [segment->part.event release];
    [segment->signaled release];
    if (segment != &_firstSegment) free(segment);
    segment = next;
  }
  _firstSegment = (soft_segment){0};
  _segment = NULL;
  soft_referent_set_clear(&_referents);
}

- (SoftQueue *)queue {
  return _queue;
}

- (SoftDevice *)softDevice {
  return [_queue softDevice];
}

- (NSString *)description {
  return [NSString stringWithFormat:@"command buffer '%@'", _label ? _label : @""];
}

#pragma mark Properties

- (id<MTLDevice>)device {
  return [_queue device];
}

- (id<MTLCommandQueue>)commandQueue {
  return (id<MTLCommandQueue>)_queue;
}

- (BOOL)retainedReferences {
  return _retainedReferences;
}

- (MTLCommandBufferStatus)status {
  return atomic_load(&_status);
}

- (NSError *)error {
  return self.status == MTLCommandBufferStatusError ? [[_error retain] autorelease] : nil;
}

- (CFTimeInterval)kernelStartTime {
  return self.status >= MTLCommandBufferStatusScheduled ? _kernelStart : 0;
}

- (CFTimeInterval)kernelEndTime {
  return self.status >= MTLCommandBufferStatusCompleted ? _kernelEnd : 0;
}

- (CFTimeInterval)GPUStartTime {
  return self.status >= MTLCommandBufferStatusCompleted ? _gpuStart : 0;
}

- (CFTimeInterval)GPUEndTime {
  return self.status >= MTLCommandBufferStatusCompleted ? _gpuEnd : 0;
}

#pragma mark Recording

- (void)requireRecording:(SEL)selector {
  if (self.status >= MTLCommandBufferStatusCommitted) soft_inconsistent(self, selector, @"%@ is committed", self);
}

- (void)requireNoEncoder:(SEL)selector {
  if (_encoder) soft_inconsistent(self, selector, @"%@ has an open encoder (%@)", self, _encoder);
}

/* A segment behind the last one. */
- (void)beginSegmentFor:(SEL)selector {
  soft_segment *segment = calloc(1, sizeof *segment);
  if (!segment) soft_inconsistent(self, selector, @"out of memory");
  segment->owner = self;
  _segment->part.next = &segment->part;
  _segment = segment;
}

- (id<MTLComputeCommandEncoder>)computeEncoderOfType:(MTLDispatchType)type for:(SEL)selector {
  [self requireRecording:selector];
  [self requireNoEncoder:selector];
  if (type > MTLDispatchTypeConcurrent) soft_invalid(self, selector, @"dispatchType (%lu)", (unsigned long)type);
  if (_segment->signaled) [self beginSegmentFor:selector];
  SoftComputeEncoder *encoder = [[SoftComputeEncoder alloc] initWithCommandBuffer:self dispatchType:type];
  _encoder = encoder;
  return [encoder autorelease];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  return [self computeEncoderOfType:MTLDispatchTypeSerial for:_cmd];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType {
  return [self computeEncoderOfType:dispatchType for:_cmd];
}

- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  [self requireRecording:_cmd];
  [self requireNoEncoder:_cmd];
  if (_segment->signaled) [self beginSegmentFor:_cmd];
  SoftBlitEncoder *encoder = [[SoftBlitEncoder alloc] initWithCommandBuffer:self];
  _encoder = encoder;
  return [encoder autorelease];
}

- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [self requireRecording:_cmd];
  [self requireNoEncoder:_cmd];
  SoftEvent *ours = soft_require_event(self, _cmd, event, [self softDevice]);
  if (_segment->part.event || _segment->commands.first_chunk || _segment->signaled) [self beginSegmentFor:_cmd];
  _segment->part.event = [ours retain];
  _segment->part.waiter.value = value;
}

- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [self requireRecording:_cmd];
  [self requireNoEncoder:_cmd];
  SoftEvent *ours = soft_require_event(self, _cmd, event, [self softDevice]);
  if (_segment->signaled) [self beginSegmentFor:_cmd];
  _segment->signaled = [ours retain];
  _segment->signaled_value = value;
}

void soft_command_buffer_use(SoftCommandBuffer *commands, SEL selector, SoftReferent *referent, id owner) {
  if (atomic_load_explicit(&referent->_lastNamedBy, memory_order_relaxed) == commands->_number) return;
  if (!soft_referent_set_add(&commands->_referents, referent, commands->_retainedReferences ? owner : nil))
    soft_inconsistent(commands, selector, @"out of memory");
  atomic_store_explicit(&referent->_lastNamedBy, commands->_number, memory_order_relaxed);
}

- (soft_command *)addCommandFor:(SEL)selector {
  soft_command *command = soft_command_list_add(&_segment->commands);
  if (!command) soft_inconsistent(self, selector, @"out of memory");
  return command;
}

- (void *)addTableOf:(size_t)count size:(size_t)size for:(SEL)selector {
  void *table = soft_command_list_table(&_segment->commands, count, size);
  if (!table) soft_inconsistent(self, selector, @"out of memory");
  return table;
}

- (void *)keepBytes:(const void *)bytes length:(NSUInteger)length for:(SEL)selector {
  void *kept = soft_command_list_keep(&_segment->commands, bytes, length);
  if (!kept) soft_inconsistent(self, selector, @"out of memory");
  return kept;
}

- (void)encoderDidEnd:(SoftEncoder *)encoder {
  if (_encoder == encoder) _encoder = nil;
}

- (void)encoderWasLost:(SoftEncoder *)encoder {
  if (_encoder == encoder) _encoder = nil;
  if (!_violation) _violation = [[NSString alloc] initWithFormat:@"%@ was released without endEncoding", encoder];
}

- (void)pushDebugGroup:(NSString *)string {
  SOFT_REQUIRE(string, @"string must not be nil");
  [self requireRecording:_cmd];
  _debugGroups++;
}

- (void)popDebugGroup {
  SOFT_REQUIRE_STATE(_debugGroups > 0, @"no debug group is open");
  _debugGroups--;
}

- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
  SOFT_REQUIRE(block, @"block must not be nil");
  [self requireRecording:_cmd];
  SOFT_REQUIRE_STATE(add_handler(&_scheduledHandlers, block), @"out of memory");
}

- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  SOFT_REQUIRE(block, @"block must not be nil");
  [self requireRecording:_cmd];
  SOFT_REQUIRE_STATE(add_handler(&_completedHandlers, block), @"out of memory");
}

#pragma mark Submission

- (void)enqueue {
  [self requireRecording:_cmd];
  if (_place.number) return;
  [[_queue order] enqueue:&_place];
  atomic_store(&_status, MTLCommandBufferStatusEnqueued);
}

- (void)commit {
  [self commit:YES for:_cmd];
}

- (void)commitWithoutWaking {
  [self commit:NO for:@selector(commit)];
}

- (void)commit:(BOOL)wakes for:(SEL)selector {
  [self requireRecording:selector];
  [self requireNoEncoder:selector];
  if (_violation) soft_inconsistent(self, selector, @"%@", _violation);
  for (soft_segment *segment = &_firstSegment; segment; segment = (soft_segment *)segment->part.next) {
    if ([[self softDevice] isStrict] && !soft_command_list_turn(&segment->commands))
      soft_inconsistent(self, selector, @"out of memory");
    segment->part.submission = (soft_submission){.commands = segment->commands.first_chunk,
                                                 .context = segment,
                                                 .begin = segment == &_firstSegment ? begin : begin_next,
                                                 .complete = segment == _segment ? complete : complete_part};
  }
  [self beginUseFor:selector];
  _plannedError = [[self softDevice] plannedErrorOfNextCommandBuffer:&_endsLate];
  atomic_store(&_status, MTLCommandBufferStatusCommitted);
  [self retain]; /* until the last segment is complete */
  /* Handlers are called on another thread than the one that commits. */
  BOOL starts = _scheduledHandlers.count == 0;
  [[_queue order] commit:&_place parts:&_firstSegment.part wakes:wakes starts:starts];
}

/* All referents are in use after this, or none and an exception. */
- (void)beginUseFor:(SEL)selector {
  NSString *refusal = nil;
  size_t begun = 0;
  while (begun < _referents.count && !(refusal = [_referents.entries[begun].referent beginUse])) begun++;
  if (!refusal) return;
  while (begun > 0) [_referents.entries[--begun].referent endUse];
  soft_inconsistent(self, selector, @"a buffer of %@ cannot be used: %@", self, refusal);
}

- (void)waitUntilScheduled {
  SOFT_REQUIRE_STATE(self.status >= MTLCommandBufferStatusCommitted, @"%@ is not committed", self);
  if ([[_queue order] isCurrentThread]) {
    SOFT_REQUIRE_STATE(self.status >= MTLCommandBufferStatusScheduled, @"this thread is the one to schedule %@", self);
    return;
  }
  [[_queue order] waitUntilScheduled:&_place];
}

- (void)waitUntilCompleted {
  SOFT_REQUIRE_STATE(self.status >= MTLCommandBufferStatusCommitted, @"%@ is not committed", self);
  if ([[_queue order] isCurrentThread]) {
    SOFT_REQUIRE_STATE(self.status >= MTLCommandBufferStatusCompleted, @"this thread is the one to complete %@", self);
    return;
  }
  [[_queue order] waitUntilFinished:&_place];
}

- (void)runHere {
  SoftQueueOrder *order = [_queue order];
  if ([order isCurrentThread]) return;
  [order retain];
  [order helpUntil:&_place];
  [order release];
}

#pragma mark Running

/* Whether the commands may run. */
- (bool)begin {
  _kernelStart = now();
  atomic_store(&_status, MTLCommandBufferStatusScheduled);
  call_handlers(&_scheduledHandlers, self);
  [[_queue order] didSchedule:_place.number];
  _kernelEnd = now();
  _error = [[self refusal] retain];
  if (_error) atomic_store(&_stopped, YES);
  return _error == nil;
}

/* Why the commands cannot run (autoreleased), or nil. */
- (NSError *)refusal {
  if (_plannedError) {
    NSString *text = [NSString stringWithFormat:@"%@ failed because the device's configuration says so", self];
    return soft_command_buffer_error(_plannedError, text);
  }
  if ([_queue isDead]) {
    return soft_command_buffer_error(MTLCommandBufferErrorAccessRevoked,
                                     @"Ignored (for causing prior/excessive GPU errors)");
  }
  return [self errorOfAbandonedReferents];
}

/* What went wrong (autoreleased), or nil. */
- (NSError *)errorOfResult:(const soft_result *)result {
  if (result->outcome == SOFT_OK) return [self errorOfAbandonedReferents];
  const char *said = result->text ? result->text : "the backend gave no reason";
  NSString *text = [NSString stringWithFormat:@"%@: %@", self, [NSString stringWithUTF8String:said]];
  return soft_command_buffer_error(soft_outcome_code(result->outcome), text);
}

/* Of each segment. */
- (void)noteResult:(const soft_result *)result {
  if (!_error) _error = [[self errorOfResult:result] retain];
  if (_error) atomic_store(&_stopped, YES);
  if (_gpuStart == 0) _gpuStart = result->start ? 1e-9 * (CFTimeInterval)result->start : _kernelEnd;
}

/* Also after an error: waiting command buffers would wait without end. */
- (void)signalEventOf:(const soft_segment *)segment {
  @autoreleasepool {
    [segment->signaled signal:segment->signaled_value];
  }
}

- (void)completeWith:(const soft_result *)result {
  if (self.status < MTLCommandBufferStatusScheduled) [self begin]; /* a backend that lost it did not say so before */
  [self noteResult:result];
  if (_error && [[self softDevice] ignoresAfterFault]) [_queue die];
  _gpuEnd = result->end ? 1e-9 * (CFTimeInterval)result->end : _gpuStart;
  uint64_t delay = [[self softDevice] delay];
  if (delay) {
    sleep_for(1e-6 * (double)delay - (now() - _gpuStart));
    _gpuEnd = now();
  }

  [self signalEventOf:_segment];

  /* The memory that it used is free before anybody hears of its end, so that the figures are right for whoever waited.
   * Whether the use ends then, too, is not documented of Metal. */
  soft_late_uses late = {0};
  @autoreleasepool {
    if (!_endsLate || ![self takeUses:&late])
      for (size_t index = 0; index < _referents.count; index++) [_referents.entries[index].referent endUse];
    [self dropReferences];
  }
  soft_schedule_point();
  atomic_store(&_status, _error ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted);
  metal_capture_note(_queue, self);
  if (!_endsLate) [_queue commandBufferEnded];
  soft_schedule_point();
  call_handlers(&_completedHandlers, self);
  [self dropHandlers];
  if (_endsLate) [_queue commandBufferEnded];
  end_uses(&late);
}

/* NO: there is no memory for them. */
- (BOOL)takeUses:(soft_late_uses *)late {
  late->uses = calloc(_referents.count + 1, sizeof *late->uses);
  if (!late->uses) return NO;
  for (size_t index = 0; index < _referents.count; index++)
    late->uses[late->count++] = soft_uses_retain([_referents.entries[index].referent uses]);
  return YES;
}

/* The stream's callbacks. The last one gives up the reference that the stream has. */

static bool begin(void *context) {
  SoftCommandBuffer *commands = ((soft_segment *)context)->owner;
  SoftQueueOrder *order = [commands->_queue order];
  soft_frame frame;
  bool runs;
  [order enter:&frame];
  @autoreleasepool {
    runs = [commands begin];
  }
  [order leaveFrame:&frame];
  soft_schedule_point();
  return runs;
}

static bool begin_next(void *context) {
  SoftCommandBuffer *commands = ((soft_segment *)context)->owner;
  [[commands->_queue order] didSchedule:commands->_place.number]; /* takes the lock: see submitWithFlags: */
  return !atomic_load(&commands->_stopped);
}

static void complete_part(void *context, const soft_result *result) {
  const soft_segment *segment = context;
  SoftCommandBuffer *commands = segment->owner;
  SoftQueueOrder *order = [commands->_queue order];
  soft_frame frame;
  [order enter:&frame];
  @autoreleasepool {
    [commands noteResult:result];
  }
  [commands signalEventOf:segment];
  [order leaveFrame:&frame];
}

static void complete(void *context, const soft_result *result) {
  SoftCommandBuffer *commands = ((soft_segment *)context)->owner;
  uint64_t number = commands->_place.number;
  SoftQueue *queue = [commands->_queue retain];
  SoftQueueOrder *order = [[queue order] retain];
  soft_frame frame;
  [order enter:&frame];
  @autoreleasepool {
    [commands completeWith:result];
  }
  @autoreleasepool {
    [commands release];
  }
  /* The queue goes after the pool that its command buffer's last objects went to: when this is the last reference
   * elsewhere, the thread that drops it waits for this one, which by then has nothing of the user's left to do. */
  @autoreleasepool {
    [queue release];
  }
  [order leaveFrame:&frame];
  soft_schedule_point();
  [order didFinish:number];
  [order release];
}

- (NSError *)errorOfAbandonedReferents {
  if (_retainedReferences) return nil;
  for (size_t index = 0; index < _referents.count; index++) {
    NSString *abandoned = [_referents.entries[index].referent abandoned];
    if (!abandoned) continue;
    NSString *text =
        [NSString stringWithFormat:@"%@ (unretained references): %@ was destroyed too early", self, abandoned];
    return soft_command_buffer_error(MTLCommandBufferErrorInvalidResource, text);
  }
  return nil;
}

@end

void SoftMetalCommitWithoutWaking(id<MTLCommandBuffer> commands) {
  [(SoftCommandBuffer *)commands commitWithoutWaking];
}

void SoftMetalRun(id<MTLCommandBuffer> commands) { [(SoftCommandBuffer *)commands runHere]; }
