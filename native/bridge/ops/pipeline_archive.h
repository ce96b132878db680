/* A device's pipelines in a file of the caller's: what a GPU's compiler made of kernels, for the next process. */
#ifndef IRON_BRIDGE_PIPELINE_ARCHIVE_H
#define IRON_BRIDGE_PIPELINE_ARCHIVE_H

#import <Metal/Metal.h>
#include <pthread.h>

#import "base/object.h"
#include "ironbridge.h"

@interface IronPipelineArchive : IronObject {
 @private
  pthread_mutex_t gate; /* lets through one use of the archive, which Metal does not guard */
  id<MTLBinaryArchive> archive;
  NSURL *file;
  uint32_t pipelines; /* added or found since it was opened */
}

/* Autoreleased; nil, with IRON_ERROR_FILE reported in *status, when there is a file and it cannot be used. */
+ (IronPipelineArchive *)archiveOf:(NSString *)path on:(id<MTLDevice>)metal status:(iron_status *)status;
/* As Metal's method without an archive. What the archive lacks is compiled, and in it from then on. */
- (id<MTLComputePipelineState>)newStateOf:(id<MTLFunction>)function
                                       on:(id<MTLDevice>)metal
                                  options:(MTLPipelineOption)options
                               reflection:(MTLComputePipelineReflection **)reflection
                                    error:(NSError **)error NS_RETURNS_RETAINED;
- (iron_status)save;

@end

#endif
