#import "SoftGpu.h"

#include <string.h>

/* Families by Apple's "Metal Feature Set Tables"; widths of SIMD-groups as drivers report them: Intel compiles a kernel
 * for 8, 16 or 32 threads, AMD's GCN and Vega have 64. The device of a virtual Mac is a GPU of family Apple5. All of
 * these have the backend's limits: 1,024 threads and 32 KiB of threadgroup memory, by the same tables. */
static const SoftGpu gpus[] = {
    {.key = "apple7", .newest_apple = MTLGPUFamilyApple7, .is_metal3 = YES, .has_unified_memory = YES},
    {.key = "apple9",
     .name = "Apple M3 (presented)",
     .newest_apple = MTLGPUFamilyApple9,
     .is_mac2 = YES,
     .is_metal3 = YES,
     .has_unified_memory = YES,
     .thread_execution_width = 32,
     .page_size = 16384},
    {.key = "intel",
     .name = "Intel(R) UHD Graphics 630 (presented)",
     .is_mac2 = YES,
     .is_metal3 = YES,
     .has_unified_memory = YES,
     .thread_execution_width = 16},
    {.key = "amd64",
     .name = "AMD Radeon Pro Vega 64 (presented)",
     .is_mac2 = YES,
     .is_metal3 = YES,
     .thread_execution_width = 64},
    {.key = "paravirtual",
     .name = "Apple Paravirtual device (presented)",
     .newest_apple = MTLGPUFamilyApple5,
     .has_unified_memory = YES,
     .thread_execution_width = 32,
     .page_size = 16384},
};

enum { COUNT = sizeof gpus / sizeof *gpus };

const SoftGpu *const SoftGpuDefault = &gpus[0];

const SoftGpu *SoftGpuNamed(const char *key) {
  for (const SoftGpu *gpu = gpus; gpu < gpus + COUNT; gpu++)
    if (strcmp(gpu->key, key) == 0) return gpu;
  return NULL;
}

NSString *SoftGpuKeys(void) {
  NSMutableArray *keys = [NSMutableArray array];
  for (const SoftGpu *gpu = gpus; gpu < gpus + COUNT; gpu++) [keys addObject:[NSString stringWithUTF8String:gpu->key]];
  return [keys componentsJoinedByString:@", "];
}

BOOL SoftGpuSupportsFamily(const SoftGpu *gpu, MTLGPUFamily family) {
  if (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3)
    return family <= MTLGPUFamilyCommon2 || gpu->is_metal3 || gpu->newest_apple >= MTLGPUFamilyApple7;
  if (family == MTLGPUFamilyMetal3) return gpu->is_metal3;
  if (family == MTLGPUFamilyMac2) return gpu->is_mac2;
  return family >= MTLGPUFamilyApple1 && family <= gpu->newest_apple;
}
