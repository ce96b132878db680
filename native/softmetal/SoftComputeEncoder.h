/* id<MTLComputeCommandEncoder>. */
#ifndef SOFT_COMPUTE_ENCODER_H
#define SOFT_COMPUTE_ENCODER_H

#import "SoftEncoder.h"
#import "SoftStorage.h"

@class SoftKernel;

/* One entry of the argument table: a buffer from an offset, or a copy of bytes, or nothing. */
typedef struct soft_argument {
  soft_buffer *buffer; /* the command buffer keeps its storage */
  void *bytes;         /* the command buffer's */
  NSUInteger length;   /* the whole buffer's */
  NSUInteger offset;
} soft_argument;

/* The tables of textures and samplers. The counts are one more than the largest index that was ever set. */
typedef struct soft_images {
  soft_texture textures[SOFT_MAX_TEXTURES];
  MTLTextureUsage usages[SOFT_MAX_TEXTURES];
  soft_sampler samplers[SOFT_MAX_SAMPLERS];
  uint32_t texture_count, sampler_count;
} soft_images;

@interface SoftComputeEncoder : SoftEncoder <MTLComputeCommandEncoder> {
@private
  MTLDispatchType _dispatchType;
  BOOL _isStrict;
  MTLSize _maxThreads; /* of a threadgroup, in each direction */
  NSUInteger _maxThreadgroupMemory;
  SoftKernel *_kernel; /* of the pipeline state that is set; the command buffer keeps it */
  soft_argument _arguments[SOFT_MAX_BINDINGS];
  uint32_t _threadgroupMemory[SOFT_MAX_BINDINGS];
  soft_images *_images; /* NULL: no texture or sampler was ever set */
  uint32_t _argumentCount, _threadgroupMemoryCount; /* one more than the largest index that was ever set */
  BOOL _overlaps; /* the next dispatch may overlap the one before it */
}
- (instancetype)initWithCommandBuffer:(SoftCommandBuffer *)commandBuffer dispatchType:(MTLDispatchType)dispatchType;
@end

#endif
