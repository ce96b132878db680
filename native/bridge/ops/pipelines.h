/* The pipeline states of the bridge's own kernels, one set per device: each family's source is compiled when the first
 * of its kernels is asked for, each pipeline state is made once. */
#ifndef IRON_BRIDGE_PIPELINES_H
#define IRON_BRIDGE_PIPELINES_H

#import <Metal/Metal.h>
#include <pthread.h>

#include "ironbridge.h"
#include "kernel_table.h"
#import "base/object.h"

/* Threads of a SIMD-group, for which our kernels are written. */
enum { IRON_SIMD_WIDTH = 32 };

@class IronDevice;
@class IronPipelineArchive;

@interface IronPipelines : IronObject {
 @private
  pthread_mutex_t lock;
  NSMutableDictionary *libraries; /* by family */
  _Atomic(void *) archive; /* an IronPipelineArchive (+1); NULL: none was opened. It stays once it is there. */
  /* MTLComputePipelineStates (+1) by index in the table; NULL: not asked for yet. They stay once they are there. */
  _Atomic(void *) states[IRON_KERNELS_AT_MOST];
}

/* The pipeline state of a kernel of the table, if the device runs its threadgroups. It lives as long as the device. */
- (iron_status)state:(id<MTLComputePipelineState> *)state ofKernel:(int)kernel on:(IronDevice *)device;

/* Where pipelines are kept for the next process; nil: nowhere. */
- (IronPipelineArchive *)archive;
/* False when there is one already. */
- (bool)keepArchive:(IronPipelineArchive *)archive;

@end

/* Compiles source; nil, with IRON_ERROR_COMPILE or IRON_ERROR_UNSUPPORTED reported in *status, when that fails.
 * Autoreleased. */
id<MTLLibrary> IronLibraryCompile(IronDevice *device, NSString *source, MTLCompileOptions *options,
                                  iron_status *status);

/* Makes a function of a library, with function constants unless `values` is nil. Autoreleased; nil, with the error
 * reported in *status. */
id<MTLFunction> IronFunctionMake(id<MTLLibrary> library, NSString *name, MTLFunctionConstantValues *values,
                                 iron_status *status);

/* Makes a function's pipeline state, and says in *reflection, unless that is NULL, what it wants bound. Autoreleased;
 * nil, with the error reported in *status. */
id<MTLComputePipelineState> IronPipelineMake(IronDevice *device, id<MTLFunction> function,
                                             MTLComputePipelineReflection **reflection, iron_status *status);

#endif
