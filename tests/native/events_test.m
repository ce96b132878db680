/* Events and fences of the software device, over the mock backend. */
#import <Metal/Metal.h>

#import "harness.h"
#import "softmetal.h"

#include <pthread.h>
#include <stdatomic.h>

static id<MTLDevice> device_like(const char *configuration) {
  return [SoftMetalCreateDevice("mock", configuration, NULL) autorelease];
}

static id<MTLCommandQueue> queue_of(id<MTLDevice> device) { return [[device newCommandQueue] autorelease]; }

static id<MTLSharedEvent> event_of(id<MTLDevice> device) { return [[device newSharedEvent] autorelease]; }

static id<MTLBuffer> number(id<MTLDevice> device, float value) {
  return [[device newBufferWithBytes:&value length:sizeof value options:MTLResourceStorageModeShared] autorelease];
}

static float value_of(id<MTLBuffer> buffer) { return *(float *)buffer.contents; }

/* x += y. */
static void encode_sum(id<MTLCommandBuffer> commands, id<MTLBuffer> x, id<MTLBuffer> y) {
  id<MTLDevice> device = commands.device;
  id<MTLLibrary> library = [[device newLibraryWithSource:@"add" options:nil error:NULL] autorelease];
  id<MTLFunction> function = [[library newFunctionWithName:@"add"] autorelease];
  id<MTLComputePipelineState> add = [[device newComputePipelineStateWithFunction:function error:NULL] autorelease];
  const uint32_t count = 1;
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:add];
  [encoder setBuffer:x offset:0 atIndex:0];
  [encoder setBuffer:y offset:0 atIndex:1];
  [encoder setBuffer:x offset:0 atIndex:2];
  [encoder setBytes:&count length:sizeof count atIndex:3];
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  [encoder endEncoding];
}

static void run(id<MTLCommandBuffer> commands) {
  [commands commit];
  [commands waitUntilCompleted];
}

CASE(a_command_buffer_waits_for_an_event_of_another_queue) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLEvent> event = [[device newEvent] autorelease];
  event.label = @"summed";
  CHECK((id)event.device == (id)device && [event.label isEqualToString:@"summed"]);
  id<MTLBuffer> x = number(device, 1), y = number(device, 2);
  id<MTLCommandQueue> first = queue_of(device), second = queue_of(device);
  id<MTLCommandBuffer> waits = [second commandBuffer];
  [waits encodeWaitForEvent:event value:1];
  encode_sum(waits, y, x);
  [waits commit];
  id<MTLCommandBuffer> behind = [second commandBuffer];
  encode_sum(behind, y, y);
  [behind commit];

  id<MTLCommandBuffer> signals = [first commandBuffer];
  encode_sum(signals, x, x);
  CHECK(waits.status == MTLCommandBufferStatusCommitted && behind.status == MTLCommandBufferStatusCommitted);
  [signals encodeSignalEvent:event value:1];
  [signals commit];
  [behind waitUntilCompleted];
  CHECK(waits.status == MTLCommandBufferStatusCompleted && !waits.error);
  CHECK(value_of(x) == 2 && value_of(y) == 8);
  [signals waitUntilCompleted];
}

CASE(the_host_signals_and_waits) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLSharedEvent> event = event_of(device);
  id<MTLBuffer> x = number(device, 1);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode_sum(commands, x, x);
  [commands encodeSignalEvent:event value:3];
  [commands encodeWaitForEvent:event value:5];
  encode_sum(commands, x, x);
  [commands encodeSignalEvent:event value:9];
  [commands commit];
  CHECK([event waitUntilSignaledValue:3 timeoutMS:60000]);
  CHECK(![event waitUntilSignaledValue:4 timeoutMS:1]);
  CHECK(event.signaledValue == 3 && value_of(x) == 2);
  event.signaledValue = 2; /* nothing: it never decreases */
  CHECK(event.signaledValue == 3 && commands.status < MTLCommandBufferStatusCompleted);
  event.signaledValue = 6;
  [commands waitUntilCompleted];
  CHECK(event.signaledValue == 9 && value_of(x) == 4 && commands.GPUEndTime >= commands.GPUStartTime);
  CHECK([event waitUntilSignaledValue:9 timeoutMS:0] && ![event waitUntilSignaledValue:10 timeoutMS:0]);
}

CASE(listeners_are_told_once_and_in_order) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLSharedEvent> event = event_of(device);
  MTLSharedEventListener *listener = [[MTLSharedEventListener new] autorelease];
  uint64_t values[4] = {0}, *told = values; /* a block cannot refer to an array */
  __block int count = 0;
  for (uint64_t value = 1; value <= 3; value++) {
    [event notifyListener:listener
                  atValue:value
                    block:^(id<MTLSharedEvent> signaled, uint64_t at) {
                      (void)signaled;
                      told[count++] = at;
                    }];
  }
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  [commands encodeSignalEvent:event value:2];
  run(commands);
  CHECK(count == 2 && told[0] == 1 && told[1] == 2);
  [event notifyListener:listener
                atValue:2
                  block:^(id<MTLSharedEvent> signaled, uint64_t at) {
                    told[count++] = signaled.signaledValue * 10 + at;
                  }];
  CHECK(count == 3 && told[2] == 22);
  /* The one of 3 goes with the event. */
  MTLSharedEventListener *none = nil;
  MTLSharedEventNotificationBlock block = ^(id<MTLSharedEvent> signaled, uint64_t at) {
    (void)signaled, (void)at;
  };
  RAISES_INVALID(@"notifyListener:", @"listener", [event notifyListener:none atValue:1 block:block]);
}

/* Two queues that hand one number to and fro. */
static void play(const char *configuration, uint64_t rounds) {
  id<MTLDevice> device = device_like(configuration);
  id<MTLSharedEvent> event = event_of(device);
  id<MTLBuffer> x = number(device, 1), one = number(device, 1);
  id<MTLCommandQueue> queues[2] = {queue_of(device), queue_of(device)};
  NSMutableArray *all = [NSMutableArray array];
  for (uint64_t round = rounds; round-- > 0;) { /* the last ones first */
    @autoreleasepool {
      id<MTLCommandBuffer> commands = [queues[round % 2] commandBuffer];
      [commands enqueue];
      [all addObject:commands];
    }
  }
  for (id<MTLCommandBuffer> commands in all) {
    /* Of each queue the first enqueued has the first turn. */
    NSUInteger place = [all indexOfObjectIdenticalTo:commands];
    uint64_t turn = place / 2 * 2 + ((rounds - 1 - place) % 2);
    [commands encodeWaitForEvent:event value:turn];
    encode_sum(commands, x, turn % 2 ? x : one); /* + 1, x 2 */
    [commands encodeSignalEvent:event value:turn + 1];
    [commands commit];
  }
  float expected = 1;
  for (uint64_t turn = 0; turn < rounds; turn++) expected += turn % 2 ? expected : 1;
  for (id<MTLCommandBuffer> commands in all) [commands waitUntilCompleted];
  CHECK(event.signaledValue == rounds);
  CHECK(value_of(x) == expected);
}

CASE(two_queues_take_turns) {
  for (int i = 0; i < 20; i++) play(NULL, 24);
  play("strict=apple", 24);
  play("late=3", 24);
}

CASE(several_waits_and_signals_between_commands) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLSharedEvent> a = event_of(device), b = event_of(device);
  id<MTLBuffer> x = number(device, 1);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  [commands encodeWaitForEvent:a value:1];
  [commands encodeWaitForEvent:b value:1];
  encode_sum(commands, x, x);
  encode_sum(commands, x, x);
  [commands encodeSignalEvent:a value:2];
  [commands encodeSignalEvent:b value:2];
  [commands encodeWaitForEvent:a value:2];
  [commands encodeWaitForEvent:b value:3];
  __block int handlers = 0;
  [commands addCompletedHandler:^(id<MTLCommandBuffer> completed) {
    (void)completed;
    handlers++;
  }];
  [commands commit];
  b.signaledValue = 1;
  CHECK(![b waitUntilSignaledValue:2 timeoutMS:1] && value_of(x) == 1);
  a.signaledValue = 1;
  CHECK([b waitUntilSignaledValue:2 timeoutMS:60000] && a.signaledValue == 2 && value_of(x) == 4);
  b.signaledValue = 3;
  [commands waitUntilCompleted];
  CHECK(handlers == 1 && commands.status == MTLCommandBufferStatusCompleted);
}

CASE(a_command_buffer_that_fails_signals_and_runs_no_further) {
  id<MTLDevice> device = device_like("fail_command_buffer=1:page_fault");
  id<MTLSharedEvent> event = event_of(device);
  id<MTLBuffer> x = number(device, 1);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  encode_sum(commands, x, x);
  [commands encodeSignalEvent:event value:1];
  encode_sum(commands, x, x);
  [commands encodeSignalEvent:event value:2];
  run(commands);
  CHECK(commands.error.code == MTLCommandBufferErrorPageFault);
  CHECK(event.signaledValue == 2 && value_of(x) == 1);
}

CASE(what_is_not_committed_is_given_back) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLSharedEvent> event = event_of(device);
  id<MTLCommandQueue> queue = queue_of(device);
  @autoreleasepool {
    id<MTLCommandBuffer> commands = [queue commandBuffer];
    [commands enqueue];
    for (uint64_t value = 1; value < 5; value++) {
      [commands encodeSignalEvent:event value:value];
      [commands encodeWaitForEvent:event value:value];
    }
  }
  id<MTLCommandBuffer> next = [queue commandBuffer];
  run(next);
  CHECK(next.status == MTLCommandBufferStatusCompleted && event.signaledValue == 0);
}

CASE(events_and_fences_of_others_are_refused) {
  id<MTLDevice> device = device_like(NULL), other = device_like(NULL);
  id<MTLEvent> foreign = [[other newEvent] autorelease];
  id<MTLSharedEvent> shared = event_of(other);
  id<MTLCommandBuffer> commands = [queue_of(device) commandBuffer];
  RAISES_INVALID(@"encodeSignalEvent:value:", @"another device", [commands encodeSignalEvent:foreign value:1]);
  RAISES_INVALID(@"encodeWaitForEvent:value:", @"another device", [commands encodeWaitForEvent:foreign value:1]);
  RAISES_INVALID(@"encodeWaitForEvent:value:", @"software device", [commands encodeWaitForEvent:(id) @"" value:1]);
  [commands encodeSignalEvent:shared value:1];

  id<MTLFence> fence = [[device newFence] autorelease];
  fence.label = @"done";
  CHECK((id)fence.device == (id)device && [fence.label isEqualToString:@"done"]);
  id<MTLComputeCommandEncoder> compute = [commands computeCommandEncoder];
  [compute updateFence:fence];
  RAISES_STATE(@"encodeSignalEvent:value:", @"open encoder", [commands encodeSignalEvent:shared value:2]);
  RAISES_INVALID(@"waitForFence:", @"not of this device", [compute waitForFence:[[other newFence] autorelease]]);
  [compute endEncoding];
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  [blit waitForFence:fence];
  [blit endEncoding];
  RAISES_STATE(@"updateFence:", @"has ended", [blit updateFence:fence]);
  run(commands);
  CHECK(shared.signaledValue == 1);
  RAISES_STATE(@"encodeSignalEvent:value:", @"committed", [commands encodeSignalEvent:shared value:2]);
}
