/* id<MTLDevice>: makes everything else. */
#ifndef SOFT_DEVICE_H
#define SOFT_DEVICE_H

#import "SoftBackend.h"
#import "SoftConfiguration.h"
#import "SoftMemory.h"

@class SoftBuffer, SoftHeapSpace;

@interface SoftDevice : SoftObject <MTLDevice> {
@private
  SoftBackend *_backend;
  SoftConfiguration *_configuration;
  SoftMemory *_memory;
  uint64_t _registryID;
  _Atomic(uint64_t) _allocations;    /* asked for so far */
  _Atomic(uint64_t) _commandBuffers; /* committed so far */
}
- (instancetype)initWithConfiguration:(SoftConfiguration *)configuration backend:(SoftBackend *)backend;
- (SoftBackend *)backend;
/* Threads of a SIMD-group as pipelines report them; 0: what the backend says. */
- (NSUInteger)presentedSimdWidth;
/* A buffer of weights, or nil. */
- (id<MTLBuffer>)newWeightsOfLength:(NSUInteger)length;
/* Microseconds that a command buffer takes at least. */
- (uint64_t)delay;
/* Counts one committed command buffer; says the MTLCommandBufferError it shall end with, or 0, and whether its uses end
 * after its handlers. */
- (NSUInteger)plannedErrorOfNextCommandBuffer:(BOOL *)endsLate;
- (BOOL)isStrict;
/* Raises unless that can be a buffer of this device. */
- (void)requireLength:(NSUInteger)length options:(MTLResourceOptions)options of:(SEL)selector;
/* A buffer in a heap, or nil; one of the allocations that are counted. */
- (SoftBuffer *)newBufferOfLength:(NSUInteger)length
                          options:(MTLResourceOptions)options
                            space:(SoftHeapSpace *)space;
/* Raises where the backend has no textures. */
- (void)requireTexturesFor:(SEL)selector;
- (BOOL)ignoresAfterFault;
@end

#endif
