/* Heaps of the software device, over the mock backend. */
#import <Metal/Metal.h>

#import "harness.h"
#import "softmetal.h"

enum { PAGE = 16384, UNIT = 256 };

static id<MTLDevice> device_like(const char *configuration) {
  return [SoftMetalCreateDevice("mock", configuration, NULL) autorelease];
}

static MTLHeapDescriptor *descriptor_of(NSUInteger size) {
  MTLHeapDescriptor *descriptor = [[MTLHeapDescriptor new] autorelease];
  descriptor.size = size;
  descriptor.storageMode = MTLStorageModeShared;
  return descriptor;
}

static id<MTLHeap> heap_of(id<MTLDevice> device, NSUInteger size) {
  return [[device newHeapWithDescriptor:descriptor_of(size)] autorelease];
}

static id<MTLBuffer> buffer_of(id<MTLHeap> heap, NSUInteger length) {
  return [heap newBufferWithLength:length options:MTLResourceStorageModeShared];
}

/* y += x, on a queue of its own; committed. */
static id<MTLCommandBuffer> add(id<MTLDevice> device, id<MTLBuffer> x, id<MTLBuffer> y, id<MTLHeap> heap,
                                id<MTLEvent> waited) {
  id<MTLLibrary> library = [[device newLibraryWithSource:@"add" options:nil error:NULL] autorelease];
  id<MTLFunction> function = [[library newFunctionWithName:@"add"] autorelease];
  id<MTLComputePipelineState> state = [[device newComputePipelineStateWithFunction:function error:NULL] autorelease];
  id<MTLCommandBuffer> commands = [[[device newCommandQueue] autorelease] commandBuffer];
  if (waited) [commands encodeWaitForEvent:waited value:1];
  const uint32_t count = 1;
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:state];
  [encoder useHeap:heap];
  [encoder setBuffer:x offset:0 atIndex:0];
  [encoder setBuffer:y offset:0 atIndex:1];
  [encoder setBuffer:y offset:0 atIndex:2];
  [encoder setBytes:&count length:sizeof count atIndex:3];
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  [encoder endEncoding];
  [commands commit];
  return commands;
}

CASE(a_heap_counts_once_and_its_buffers_count_nothing) {
  id<MTLDevice> device = device_like(NULL);
  @autoreleasepool {
    id<MTLHeap> heap = heap_of(device, 2 * PAGE - 1);
    heap.label = @"activations";
    CHECK((id)heap.device == (id)device && [heap.label isEqualToString:@"activations"]);
    CHECK(heap.size == 2 * PAGE && heap.currentAllocatedSize == 2 * PAGE && heap.usedSize == 0);
    CHECK(heap.storageMode == MTLStorageModeShared && heap.type == MTLHeapTypeAutomatic);
    CHECK(heap.hazardTrackingMode == MTLHazardTrackingModeUntracked);
    CHECK(device.currentAllocatedSize == 2 * PAGE);
    CHECK([heap maxAvailableSizeWithAlignment:1] == 2 * PAGE);

    id<MTLBuffer> first = buffer_of(heap, PAGE), second = buffer_of(heap, 1);
    CHECK(first.length == PAGE && second.length == 1 && second.allocatedSize == UNIT);
    CHECK((id)first.heap == (id)heap && first.heapOffset == 0 && second.heapOffset == PAGE);
    CHECK(heap.usedSize == PAGE + UNIT && device.currentAllocatedSize == 2 * PAGE);
    CHECK([heap maxAvailableSizeWithAlignment:0] == PAGE - UNIT);
    CHECK([heap maxAvailableSizeWithAlignment:PAGE / 2] == PAGE / 2);
    CHECK([heap maxAvailableSizeWithAlignment:2 * PAGE] == 0);
    [first release];
    CHECK(heap.usedSize == UNIT && device.currentAllocatedSize == 2 * PAGE);
    [second release];
    CHECK(heap.usedSize == 0 && device.currentAllocatedSize == 2 * PAGE);
  }
  CHECK(device.currentAllocatedSize == 0);
}

CASE(a_full_heap_has_no_buffer) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLHeap> heap = heap_of(device, PAGE);
  id<MTLBuffer> buffers[4];
  for (int i = 0; i < 4; i++) buffers[i] = buffer_of(heap, PAGE / 4);
  CHECK(buffers[3].heapOffset == PAGE / 4 * 3 && heap.usedSize == heap.size);
  CHECK(!buffer_of(heap, 1) && heap.usedSize == PAGE);
  /* Two free places that are not neighbors are no place for twice the length. */
  [buffers[0] release];
  [buffers[2] release];
  CHECK([heap maxAvailableSizeWithAlignment:UNIT] == PAGE / 4 && !buffer_of(heap, PAGE / 4 + 1));
  buffers[2] = buffer_of(heap, PAGE / 8);
  CHECK(buffers[2].heapOffset == 0);
  buffers[0] = buffer_of(heap, PAGE / 4);
  CHECK(buffers[0].heapOffset == PAGE / 2 && heap.usedSize == PAGE / 8 * 7);
  for (int i = 0; i < 4; i++) [buffers[i] release];
  CHECK(heap.usedSize == 0 && [heap maxAvailableSizeWithAlignment:UNIT] == PAGE);
}

CASE(a_heap_is_an_allocation) {
  id<MTLDevice> device = device_like("memory_limit=64K,fail_allocation=3");
  id<MTLHeap> heap = heap_of(device, 3 * PAGE);
  CHECK(heap && !heap_of(device, 2 * PAGE) && device.currentAllocatedSize == 3 * PAGE);
  CHECK(!buffer_of(heap, 1) && heap.usedSize == 0); /* the third allocation */
  id<MTLBuffer> buffer = [buffer_of(heap, 3 * PAGE) autorelease];
  CHECK(buffer != nil && device.currentAllocatedSize == 3 * PAGE);
  MTLSizeAndAlign needed = [device heapBufferSizeAndAlignWithLength:UNIT + 1 options:MTLResourceStorageModeShared];
  CHECK(needed.size == 2 * UNIT && needed.align == UNIT);
}

CASE(buffers_of_a_heap_are_computed_with_and_outlive_it) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLBuffer> x, y;
  @autoreleasepool {
    id<MTLHeap> heap = heap_of(device, PAGE);
    x = [buffer_of(heap, sizeof(float)) autorelease], y = [buffer_of(heap, sizeof(float)) autorelease];
    *(float *)x.contents = 2;
    *(float *)y.contents = 3;
    id<MTLCommandBuffer> commands = add(device, x, y, heap, nil);
    [commands waitUntilCompleted];
    CHECK(commands.status == MTLCommandBufferStatusCompleted);
    [x retain], [y retain];
  }
  CHECK(*(float *)y.contents == 5 && device.currentAllocatedSize == PAGE && x.heap.usedSize == 2 * UNIT);
  [x release], [y release];
}

CASE(what_is_aliasable_makes_room) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLHeap> heap = heap_of(device, PAGE);
  id<MTLBuffer> old = [buffer_of(heap, PAGE) autorelease];
  CHECK(![old isAliasable] && !buffer_of(heap, 1));
  [old makeAliasable];
  [old makeAliasable];
  CHECK([old isAliasable] && heap.usedSize == 0);
  id<MTLBuffer> new = [buffer_of(heap, PAGE) autorelease];
  CHECK(new.heapOffset == 0 && heap.usedSize == PAGE && device.currentAllocatedSize == PAGE);
  id<MTLBuffer> own = [[device newBufferWithLength:1 options:MTLResourceStorageModeShared] autorelease];
  CHECK(!own.heap && own.heapOffset == 0 && ![own isAliasable]);
  RAISES_STATE(@"makeAliasable", @"not of a heap", [own makeAliasable]);
}

CASE(a_heap_has_a_purgeable_state) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLHeap> heap = heap_of(device, PAGE);
  id<MTLBuffer> x = [buffer_of(heap, sizeof(float)) autorelease], y = [buffer_of(heap, sizeof(float)) autorelease];
  *(float *)x.contents = 2;
  CHECK([heap setPurgeableState:MTLPurgeableStateKeepCurrent] == MTLPurgeableStateNonVolatile);
  id<MTLSharedEvent> event = [[device newSharedEvent] autorelease];
  id<MTLCommandBuffer> commands = add(device, x, y, heap, event);
  RAISES_STATE(@"setPurgeableState:", @"in flight", [heap setPurgeableState:MTLPurgeableStateVolatile]);
  event.signaledValue = 1;
  [commands waitUntilCompleted];
  CHECK(*(float *)y.contents == 2);

  RAISES_STATE(@"setPurgeableState:", @"of a heap", [x setPurgeableState:MTLPurgeableStateEmpty]);
  CHECK([heap setPurgeableState:MTLPurgeableStateVolatile] == MTLPurgeableStateNonVolatile);
  CHECK([x setPurgeableState:MTLPurgeableStateKeepCurrent] == MTLPurgeableStateVolatile);
  RAISES_STATE(@"commit", @"heap's purgeable state is Volatile", add(device, x, y, heap, nil));
  CHECK(device.currentAllocatedSize == PAGE);

  [heap setPurgeableState:MTLPurgeableStateEmpty];
  CHECK(heap.currentAllocatedSize == 0 && device.currentAllocatedSize == 0 && heap.usedSize == 2 * UNIT);
  CHECK([heap setPurgeableState:MTLPurgeableStateVolatile] == MTLPurgeableStateEmpty);
  CHECK([heap setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateEmpty);
  CHECK(heap.currentAllocatedSize == PAGE && device.currentAllocatedSize == PAGE);
  CHECK(*(float *)x.contents == 0 && *(float *)y.contents == 0);
  [add(device, x, y, heap, nil) waitUntilCompleted];
  [heap setPurgeableState:MTLPurgeableStateEmpty]; /* and goes so */
}

CASE(heaps_that_cannot_be_are_refused) {
  id<MTLDevice> device = device_like(NULL), other = device_like(NULL);
  RAISES_INVALID(@"newHeapWithDescriptor:", @"size", heap_of(device, 0));
  MTLHeapDescriptor *descriptor = descriptor_of(PAGE);
  descriptor.type = MTLHeapTypePlacement;
  RAISES_INVALID(@"newHeapWithDescriptor:", @"automatic", [device newHeapWithDescriptor:descriptor]);
  descriptor = descriptor_of(PAGE);
  descriptor.storageMode = MTLStorageModeManaged;
  RAISES_INVALID(@"newHeapWithDescriptor:", @"storageMode", [device newHeapWithDescriptor:descriptor]);
  descriptor.storageMode = MTLStorageModePrivate;
  descriptor.hazardTrackingMode = MTLHazardTrackingModeTracked;
  MTLHeapDescriptor *copy = [[descriptor copy] autorelease];
  CHECK(copy.size == PAGE && copy.resourceOptions ==
                                 (MTLResourceStorageModePrivate | MTLResourceHazardTrackingModeTracked));
  id<MTLHeap> heap = [[device newHeapWithDescriptor:copy] autorelease];
  CHECK(heap.hazardTrackingMode == MTLHazardTrackingModeTracked);
  RAISES_INVALID(@"newBufferWithLength:options:", @"storage", buffer_of(heap, 1));
  RAISES_INVALID(@"newBufferWithLength:options:", @"length", buffer_of(heap, 0));
  RAISES_INVALID(@"maxAvailableSizeWithAlignment:", @"power of two", [heap maxAvailableSizeWithAlignment:3]);
  id<MTLBuffer> private = [[heap newBufferWithLength:1 options:MTLResourceStorageModePrivate] autorelease];
  CHECK(private && !private.contents);
  id<MTLCommandBuffer> commands = [[[device newCommandQueue] autorelease] commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  RAISES_INVALID(@"useHeaps:count:", @"another device", [encoder useHeap:heap_of(other, PAGE)]);
  RAISES_INVALID(@"useHeaps:count:", @"software device", [encoder useHeap:(id)private]);
  [encoder endEncoding];
}
