/* Dispatches of the software device whose grid is in a buffer, over the mock backend. */
#import <Metal/Metal.h>

#import "harness.h"
#include "mock_kernels.h"
#import "softmetal.h"

static id<MTLDevice> device(void) { return [SoftMetalCreateDevice("mock", NULL, NULL) autorelease]; }

static id<MTLBuffer> buffer_of(id<MTLDevice> metal, NSUInteger length) {
  return [[metal newBufferWithLength:length options:MTLResourceStorageModeShared] autorelease];
}

static id<MTLComputeCommandEncoder> encoder_of(id<MTLCommandBuffer> commands, NSString *kernel) {
  id<MTLLibrary> library = [[commands.device newLibraryWithSource:kernel options:nil error:NULL] autorelease];
  id<MTLFunction> function = [[library newFunctionWithName:kernel] autorelease];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:[[commands.device newComputePipelineStateWithFunction:function error:NULL]
                                       autorelease]];
  return encoder;
}

CASE(an_indirect_grid_is_read_when_the_command_runs) {
  id<MTLDevice> metal = device();
  id<MTLBuffer> seen = buffer_of(metal, sizeof(described_dispatch)), grid = buffer_of(metal, 16);
  id<MTLSharedEvent> event = [[metal newSharedEvent] autorelease];
  id<MTLCommandBuffer> commands = [[[metal newCommandQueue] autorelease] commandBuffer];
  [commands encodeWaitForEvent:event value:1];
  id<MTLComputeCommandEncoder> encoder = encoder_of(commands, @"describe");
  [encoder setBuffer:seen offset:0 atIndex:0];
  [encoder dispatchThreadgroupsWithIndirectBuffer:grid
                             indirectBufferOffset:4
                            threadsPerThreadgroup:MTLSizeMake(8, 2, 1)];
  [encoder endEncoding];
  [commands commit];
  const uint32_t values[4] = {9, 5, 6, 7};
  memcpy(grid.contents, values, sizeof values);
  event.signaledValue = 1;
  [commands waitUntilCompleted];
  const described_dispatch *dispatch = seen.contents;
  CHECK(commands.status == MTLCommandBufferStatusCompleted && !dispatch->threads);
  CHECK(dispatch->grid[0] == 5 && dispatch->grid[1] == 6 && dispatch->grid[2] == 7);
  CHECK(dispatch->threadgroup[0] == 8 && dispatch->threadgroup[1] == 2 && dispatch->threadgroup[2] == 1);
}

CASE(an_indirect_grid_of_nothing_runs_nothing) {
  id<MTLDevice> metal = device();
  id<MTLBuffer> seen = buffer_of(metal, sizeof(described_dispatch));
  @autoreleasepool {
    id<MTLCommandBuffer> commands = [[[metal newCommandQueue] autorelease] commandBuffer];
    id<MTLComputeCommandEncoder> encoder = encoder_of(commands, @"describe");
    [encoder setBuffer:seen offset:0 atIndex:0];
    [encoder dispatchThreadgroupsWithIndirectBuffer:buffer_of(metal, 12) /* the command buffer keeps it */
                               indirectBufferOffset:0
                              threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
    [encoder endEncoding];
    [commands commit];
    [commands waitUntilCompleted];
    CHECK(commands.status == MTLCommandBufferStatusCompleted);
  }
  const described_dispatch *dispatch = seen.contents;
  CHECK(dispatch->binding_count == 0 && dispatch->threadgroup[0] == 0);
}

static void dispatch(id<MTLComputeCommandEncoder> encoder, id<MTLBuffer> grid, NSUInteger offset, NSUInteger threads) {
  [encoder dispatchThreadgroupsWithIndirectBuffer:grid
                             indirectBufferOffset:offset
                            threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
}

CASE(indirect_arguments_are_checked) {
  id<MTLDevice> metal = device();
  id<MTLBuffer> grid = buffer_of(metal, 16), foreign = buffer_of(device(), 16), none = nil;
  NSString *const selector = @"dispatchThreadgroupsWithIndirectBuffer:";
  id<MTLCommandBuffer> commands = [[[metal newCommandQueue] autorelease] commandBuffer];
  id<MTLComputeCommandEncoder> bare = [commands computeCommandEncoder];
  RAISES_STATE(selector, @"pipeline", dispatch(bare, grid, 0, 1));
  [bare endEncoding];
  id<MTLComputeCommandEncoder> encoder = encoder_of(commands, @"describe");
  RAISES_INVALID(selector, @"multiple of 4", dispatch(encoder, grid, 2, 1));
  RAISES_INVALID(selector, @"12 bytes from 8", dispatch(encoder, grid, 8, 1));
  RAISES_INVALID(selector, @"another device", dispatch(encoder, foreign, 0, 1));
  RAISES_INVALID(selector, @"must not be nil", dispatch(encoder, none, 0, 1));
  RAISES_INVALID(selector, @"threadsPerThreadgroup", dispatch(encoder, grid, 0, 0));
  [encoder endEncoding];
}
