/* The default library, a heap, and a dispatch whose grid a kernel in front of it wrote to private memory. Prints how
 * many threads that had for 0, 3 and 2^30 threadgroups by 2, of 8 threads each, and the error of the last. */
#import <Metal/Metal.h>

#include <stdio.h>

static id<MTLComputePipelineState> pipeline_of(id<MTLLibrary> library, NSString *name) {
  id<MTLFunction> function = [[library newFunctionWithName:name] autorelease];
  return [[library.device newComputePipelineStateWithFunction:function error:NULL] autorelease];
}

static void run(id<MTLLibrary> library, id<MTLBuffer> grid, id<MTLBuffer> total, uint32_t groups) {
  const MTLSize one = MTLSizeMake(1, 1, 1);
  id<MTLCommandBuffer> commands = [[[library.device newCommandQueue] autorelease] commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder useHeap:grid.heap];
  [encoder setComputePipelineState:pipeline_of(library, @"plan")];
  [encoder setBuffer:grid offset:0 atIndex:0];
  [encoder setBytes:&groups length:sizeof groups atIndex:1];
  [encoder dispatchThreads:one threadsPerThreadgroup:one];
  [encoder setComputePipelineState:pipeline_of(library, @"count")];
  [encoder setBuffer:total offset:0 atIndex:0];
  [encoder dispatchThreadgroupsWithIndirectBuffer:grid
                             indirectBufferOffset:0
                            threadsPerThreadgroup:MTLSizeMake(8, 1, 1)];
  [encoder endEncoding];
  [commands commit];
  [commands waitUntilCompleted];
  const char *error = commands.error ? commands.error.localizedDescription.UTF8String : "";
  printf("%u%s%s\n", *(uint32_t *)total.contents, *error ? " " : "", error);
}

int main(void) {
  @autoreleasepool {
    id<MTLDevice> device = [MTLCreateSystemDefaultDevice() autorelease];
    id<MTLLibrary> library = [[device newDefaultLibrary] autorelease];
    if (!library) return 1;
    MTLHeapDescriptor *descriptor = [[MTLHeapDescriptor new] autorelease];
    descriptor.size = 1 << 16;
    id<MTLHeap> heap = [[device newHeapWithDescriptor:descriptor] autorelease];
    id<MTLBuffer> grid = [[heap newBufferWithLength:12 options:MTLResourceStorageModePrivate] autorelease];
    id<MTLBuffer> total = [[device newBufferWithLength:4 options:MTLResourceStorageModeShared] autorelease];
    run(library, grid, total, 0);
    run(library, grid, total, 3);
    run(library, grid, total, 1u << 30);
  }
  return 0;
}
