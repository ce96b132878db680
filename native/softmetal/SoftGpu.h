/* Which GPU a software device presents itself as: what a program asks before it trusts one. The same backend runs the
 * kernels. */
#ifndef SOFT_GPU_H
#define SOFT_GPU_H

#import <Metal/Metal.h>

typedef struct SoftGpu {
  const char *key;                 /* in softmetal.h's configuration: gpu=KEY */
  const char *name;                /* as -[MTLDevice name] has it; NULL: the backend's */
  MTLGPUFamily newest_apple;       /* 0: not a GPU of Apple's */
  BOOL is_mac2, is_metal3;         /* MTLGPUFamilyMac2, MTLGPUFamilyMetal3 */
  BOOL has_unified_memory;
  NSUInteger thread_execution_width; /* threads of a SIMD-group; 0: the backend's */
  uint64_t page_size;              /* bytes by which buffers are charged; 0: the backend's */
} SoftGpu;

/* What a software device is by itself: the compute side of an M1. */
extern const SoftGpu *const SoftGpuDefault;
/* NULL when no GPU has that key. */
const SoftGpu *SoftGpuNamed(const char *key);
/* "apple7, apple9, …". Autoreleased. */
NSString *SoftGpuKeys(void);
BOOL SoftGpuSupportsFamily(const SoftGpu *gpu, MTLGPUFamily family);

#endif
