/* Adds two arrays through Metal, on a Mac's GPU or on ironbridge's software device.
 *
 *   macOS  clang -fobjc-arc -framework Metal -framework Foundation add_arrays.m -o add_arrays
 *   Linux  clang add_arrays.m $(pkg-config --cflags --libs softmetal) -o add_arrays
 *
 * GNUstep on GCC's runtime has no automatic reference counting: `owned` does there what the compiler does on a Mac. */
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <stdio.h>

enum { COUNT = 1000 };

static NSString *const source = @"#include <metal_stdlib>\n"
                                @"using namespace metal;\n"
                                @"kernel void add_arrays(device const float *a [[buffer(0)]],\n"
                                @"                       device const float *b [[buffer(1)]],\n"
                                @"                       device float *sums [[buffer(2)]],\n"
                                @"                       uint index [[thread_position_in_grid]]) {\n"
                                @"  sums[index] = a[index] + b[index];\n"
                                @"}\n";

/* What a function with new, copy or Create in its name returned: goes with the pool, or by itself. */
#if __has_feature(objc_arc)
#define owned(object) (object)
#else
#define owned(object) [(object) autorelease]
#endif

static int fail(NSString *what, NSError *error) {
  NSString *reason = error ? [@": " stringByAppendingString:error.localizedDescription] : @"";
  fprintf(stderr, "add_arrays: %s%s\n", what.UTF8String, reason.UTF8String);
  return 1;
}

static int add_arrays(void) {
  id<MTLDevice> device = owned(MTLCreateSystemDefaultDevice());
  if (!device) return fail(@"there is no Metal device", nil);
  NSError *error = nil;
  id<MTLLibrary> library = owned([device newLibraryWithSource:source options:nil error:&error]);
  if (!library) return fail(@"the source does not compile", error);
  id<MTLFunction> function = owned([library newFunctionWithName:@"add_arrays"]);
  id<MTLComputePipelineState> pipeline = owned([device newComputePipelineStateWithFunction:function error:&error]);
  if (!pipeline) return fail(@"there is no pipeline", error);

  const NSUInteger length = COUNT * sizeof(float);
  id<MTLBuffer> a = owned([device newBufferWithLength:length options:MTLResourceStorageModeShared]);
  id<MTLBuffer> b = owned([device newBufferWithLength:length options:MTLResourceStorageModeShared]);
  id<MTLBuffer> sums = owned([device newBufferWithLength:length options:MTLResourceStorageModeShared]);
  if (!a || !b || !sums) return fail(@"there is no memory", nil);
  float *first = a.contents, *second = b.contents;
  for (int i = 0; i < COUNT; i++) {
    first[i] = (float)i;
    second[i] = 0.5f * (float)i;
  }

  id<MTLCommandQueue> queue = owned([device newCommandQueue]);
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline];
  [encoder setBuffer:a offset:0 atIndex:0];
  [encoder setBuffer:b offset:0 atIndex:1];
  [encoder setBuffer:sums offset:0 atIndex:2];
  NSUInteger threads = pipeline.maxTotalThreadsPerThreadgroup;
  [encoder dispatchThreads:MTLSizeMake(COUNT, 1, 1)
      threadsPerThreadgroup:MTLSizeMake(threads < COUNT ? threads : COUNT, 1, 1)];
  [encoder endEncoding];
  [commands commit];
  [commands waitUntilCompleted];
  if (commands.error) return fail(@"the commands failed", commands.error);

  const float *result = sums.contents;
  for (int i = 0; i < COUNT; i++) {
    if (result[i] == first[i] + second[i]) continue;
    fprintf(stderr, "add_arrays: sum %d is %g, not %g\n", i, (double)result[i], (double)(first[i] + second[i]));
    return 1;
  }
  printf("%d sums are right on %s\n", COUNT, device.name.UTF8String);
  return 0;
}

int main(void) {
  @autoreleasepool {
    return add_arrays();
  }
}
