#import "operation.h"

#import "error.h"
#import "pipelines.h"

enum { MAX_OPERANDS = 4, SIMD_WIDTH = 32, ROW_THREADS = 256 };

static void dispatch(id<MTLComputeCommandEncoder> encoder, id<MTLComputePipelineState> state, IronGrid grid) {
  MTLSize size = MTLSizeMake(grid.width, grid.height ? grid.height : 1, grid.depth ? grid.depth : 1);
  if (grid.kind == IRON_GRID_GROUPS) {
    [encoder dispatchThreadgroups:size threadsPerThreadgroup:MTLSizeMake(SIMD_WIDTH, 1, 1)];
    return;
  }
  /* A kernel that needs many registers may allow fewer threads than these. */
  NSUInteger most = [state maxTotalThreadsPerThreadgroup];
  NSUInteger threads = most < ROW_THREADS ? most : ROW_THREADS;
  NSUInteger width = size.height == 1 || threads < SIMD_WIDTH ? threads : SIMD_WIDTH;
  [encoder dispatchThreads:size threadsPerThreadgroup:MTLSizeMake(width, threads / width, 1)];
}

/* What the operands mean for the submission: a stand-in, bound where nothing is read, is no use of its buffer. */
static size_t uses_of(IronUse *uses, const IronOperand *operands, size_t count) {
  size_t used = 0;
  for (size_t index = 0; index < count; index++) {
    const IronOperand *operand = &operands[index];
    if (!operand->access) continue;
    uses[used++] = (IronUse){operand->name, operand->buffer, operand->access, operand->whole};
  }
  return used;
}

iron_status IronOperationEncode(IronCommands *commands, int kernel, const IronOperand *operands, size_t operand_count,
                                const void *arguments, size_t arguments_size, IronGrid grid) {
  if (kernel < 0) return IronErrorReport(IRON_ERROR_UNSUPPORTED, "there is no kernel for these types");
  id<MTLComputePipelineState> state;
  iron_status status = [commands->device->pipelines state:&state ofKernel:kernel on:commands->device];
  if (status != IRON_OK) return status;

  IronUse uses[MAX_OPERANDS];
  id<MTLComputeCommandEncoder> encoder;
  size_t use_count = uses_of(uses, operands, operand_count);
  status = [commands prepare:uses count:use_count compute:&encoder];
  if (status != IRON_OK) return status;

  [encoder setComputePipelineState:state];
  uint64_t bytes = 0;
  for (size_t index = 0; index < operand_count; index++) {
    [encoder setBuffer:operands[index].buffer->metal offset:operands[index].offset atIndex:index];
    bytes += operands[index].access ? operands[index].length : 0;
  }
  [encoder setBytes:arguments length:arguments_size atIndex:operand_count];
  dispatch(encoder, state, grid);
  [commands recorded:bytes];
  return IRON_OK;
}
