/* How often the default device is in the list of all, and whether it is one object. */
#import <Metal/Metal.h>

#include <stdio.h>

int main(void) {
  @autoreleasepool {
    id<MTLDevice> first = [MTLCreateSystemDefaultDevice() autorelease];
    id<MTLDevice> again = [MTLCreateSystemDefaultDevice() autorelease];
    NSArray<id<MTLDevice>> *all = [MTLCopyAllDevices() autorelease];
    NSUInteger count = 0;
    for (id<MTLDevice> device in all) count += device == first;
    printf("%lu %s\n", (unsigned long)count, first == again ? "same" : "other");
  }
  return 0;
}
