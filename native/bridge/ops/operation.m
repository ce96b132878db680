#import "operation.h"

#import "base/entry.h"
#import "pipelines.h"
#import "device/trace.h"

#include <stdio.h>

enum { MAX_PASSES = 17, MAX_OPERANDS = 13, ROW_THREADS = 256 };

static uint64_t groups(uint64_t points, uint32_t tile) { return (points + tile - 1) / tile; }

static void dispatch(id<MTLComputeCommandEncoder> encoder, id<MTLComputePipelineState> state,
                     const IronGeometry *geometry, IronGrid grid) {
  if (geometry->threads) {
    const uint32_t *tile = geometry->tile;
    MTLSize size = MTLSizeMake(groups(grid.width, tile[0]), groups(grid.height, tile[1]), groups(grid.depth, tile[2]));
    [encoder dispatchThreadgroups:size threadsPerThreadgroup:MTLSizeMake(geometry->threads, 1, 1)];
    return;
  }
  /* A kernel that needs many registers may allow fewer threads than these. */
  NSUInteger most = [state maxTotalThreadsPerThreadgroup];
  NSUInteger threads = most < ROW_THREADS ? most : ROW_THREADS;
  NSUInteger width = grid.height == 1 || threads < IRON_SIMD_WIDTH ? threads : IRON_SIMD_WIDTH;
  [encoder dispatchThreads:MTLSizeMake(grid.width, grid.height, grid.depth)
      threadsPerThreadgroup:MTLSizeMake(width, threads / width, 1)];
}

/* What operands mean for the submission: a stand-in, bound where nothing is read, is no use of its buffer. Adds their
 * lengths to `bytes`. */
static size_t uses_of(IronUse *uses, const IronOperand *operands, size_t count, uint64_t *bytes) {
  size_t used = 0;
  for (const IronOperand *operand = operands; operand < operands + count; operand++) {
    if (!operand->access) continue;
    uses[used++] = (IronUse){operand->name, operand->buffer, operand->access, operand->whole};
    *bytes += operand->length;
  }
  return used;
}

iron_status IronOperationPrepareToPutOff(IronCommands *commands, const IronOperand *operands, size_t count, bool joins,
                                         uint64_t *bytes) {
  IronUse uses[MAX_OPERANDS];
  *bytes = 0;
  size_t used = uses_of(uses, operands, count, bytes);
  return [commands prepareToPutOff:uses count:used joining:joins];
}

/* "a=2x3 b=3x2": rows by columns, by planes when there are several. */
static void describe_shape(char *text, size_t capacity, const IronOperand *operands, size_t count) {
  size_t length = 0;
  text[0] = '\0';
  for (size_t index = 0; index < count && length < capacity; index++) {
    const IronOperand *operand = &operands[index];
    if (!operand->access) continue;
    length += (size_t)snprintf(text + length, capacity - length, "%s%s=%llux%llu", length ? " " : "", operand->name,
                               (unsigned long long)operand->rows, (unsigned long long)operand->width);
    if (operand->planes > 1 && length < capacity)
      length += (size_t)snprintf(text + length, capacity - length, "x%llu", (unsigned long long)operand->planes);
  }
}

static void trace(IronDevice *device, IronLocation location, const IronOperand *operands, size_t count) {
  if (!IronTraceIsOn()) return;
  char shape[256];
  describe_shape(shape, sizeof shape, operands, count);
  IronTraceOperation(device, location, shape);
}

void IronOperationPutOff(IronCommands *commands, IronPutOff encode, uint64_t bytes, IronLocation location,
                         const IronOperand *operands, size_t count) {
  [commands putOff:encode];
  [commands recorded:bytes];
  trace(commands->device, location, operands, count);
}

iron_status IronPassPrepare(IronKernelPass *pass, IronDevice *device) {
  int kernel = pass->pass.kernel;
  if (kernel < 0) return IronErrorReport(IRON_ERROR_UNSUPPORTED, "there is no kernel for these types");
  return [device->pipelines state:&pass->state ofKernel:kernel on:device];
}

void IronPassEncode(const IronKernelPass *prepared, id<MTLComputeCommandEncoder> encoder) {
  const IronPass *pass = &prepared->pass;
  [encoder setComputePipelineState:prepared->state];
  id<MTLBuffer> buffers[MAX_OPERANDS];
  NSUInteger offsets[MAX_OPERANDS];
  for (size_t binding = 0; binding < pass->operand_count; binding++) {
    buffers[binding] = pass->operands[binding].buffer->metal;
    offsets[binding] = pass->operands[binding].offset;
  }
  if (pass->operand_count) [encoder setBuffers:buffers offsets:offsets withRange:NSMakeRange(0, pass->operand_count)];
  [encoder setBytes:pass->arguments length:pass->arguments_size atIndex:pass->operand_count];
  /* What a pass before this one had would count beside the kernel's own. Devices of many cores alone have such
   * passes. */
  bool may_have_been_set = pass->operand_count > 0 && pass->operands[0].buffer->device->cores >= IRON_MANY_CORES;
  if (pass->threadgroup_memory || may_have_been_set)
    [encoder setThreadgroupMemoryLength:pass->threadgroup_memory atIndex:0];
  dispatch(encoder, prepared->state, &IronKernelTable[pass->kernel].geometry, pass->grid);
}

iron_status IronOperationEncodePasses(IronCommands *commands, const IronPass *passes, size_t count) {
  IronLocation location = IronLocationTake();
  IronKernelPass prepared[MAX_PASSES];
  for (size_t index = 0; index < count; index++) {
    prepared[index].pass = passes[index];
    IRON_TRY(IronPassPrepare(&prepared[index], commands->device));
  }
  IronUse uses[MAX_PASSES * MAX_OPERANDS];
  size_t used = 0;
  uint64_t bytes = 0;
  for (const IronPass *pass = passes; pass < passes + count; pass++)
    used += uses_of(uses + used, pass->operands, pass->operand_count, &bytes);
  id<MTLComputeCommandEncoder> encoder;
  IRON_TRY([commands prepare:uses count:used compute:&encoder]);
  for (size_t index = 0; index < count; index++) IronPassEncode(&prepared[index], encoder);
  [commands recorded:bytes];
  /* The first pass has the operation's inputs. */
  trace(commands->device, location, passes[0].operands, passes[0].operand_count);
  return IRON_OK;
}

iron_status IronOperationEncode(IronCommands *commands, int kernel, const IronOperand *operands, size_t operand_count,
                                const void *arguments, size_t arguments_size, IronGrid grid) {
  IronPass pass = {kernel, operands, operand_count, arguments, arguments_size, grid, 0};
  return IronOperationEncodePasses(commands, &pass, 1);
}
