#import "SoftComputeEncoder.h"

#import "SoftBuffer.h"
#import "SoftDevice.h"
#import "SoftPipeline.h"
#import "SoftValidation.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_INLINE_BYTES = 4096, THREADGROUP_MEMORY_UNIT = 16 };

@implementation SoftComputeEncoder

SOFT_COUNTED(SoftComputeEncoder)

- (instancetype)initWithCommandBuffer:(SoftCommandBuffer *)commandBuffer dispatchType:(MTLDispatchType)dispatchType {
  self = [super initWithCommandBuffer:commandBuffer];
  if (self) _dispatchType = dispatchType;
  return self;
}

- (void)dealloc {
  [self dropArguments];
  [super dealloc];
}

- (void)dropArguments {
  for (NSUInteger i = 0; i < _argumentCount; i++) [self bind:(soft_argument){0} atIndex:i];
  [_kernel release];
  _kernel = nil;
}

- (void)endEncoding {
  [super endEncoding];
  [self dropArguments];
}

- (MTLDispatchType)dispatchType {
  return _dispatchType;
}

#pragma mark The argument table

/* Takes over the argument's reference. */
- (void)bind:(soft_argument)argument atIndex:(NSUInteger)index {
  [_arguments[index].storage release];
  _arguments[index] = argument;
  if (index >= _argumentCount) _argumentCount = (uint32_t)index + 1;
}

- (void)requireIndex:(NSUInteger)index for:(SEL)selector {
  if (index >= SOFT_MAX_BINDINGS) {
    soft_invalid(self, selector, @"index (%" PRIu64 ") must be below %d", (uint64_t)index, SOFT_MAX_BINDINGS);
  }
}

- (void)requireOffset:(NSUInteger)offset within:(NSUInteger)length for:(SEL)selector {
  if (offset >= length) {
    soft_invalid(self, selector, @"offset (%" PRIu64 ") is not inside a buffer of %" PRIu64 " bytes", (uint64_t)offset,
                 (uint64_t)length);
  }
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index for:(SEL)selector {
  [self requireOpen:selector];
  [self requireIndex:index for:selector];
  if (!buffer) {
    [self bind:(soft_argument){0} atIndex:index];
    return;
  }
  SoftBuffer *bound = soft_require_buffer(self, selector, @"buffer", buffer, [self softDevice]);
  [self requireOffset:offset within:bound.length for:selector];
  [_commandBuffer useBuffer:bound];
  soft_argument argument = {.storage = [[bound storage] retain], .length = bound.length, .offset = offset};
  [self bind:argument atIndex:index];
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [self setBuffer:buffer offset:offset atIndex:index for:_cmd];
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
  [self requireOpen:_cmd];
  SOFT_REQUIRE(buffers && offsets, @"buffers and offsets must not be NULL");
  SOFT_REQUIRE(range.length <= SOFT_MAX_BINDINGS && range.location <= SOFT_MAX_BINDINGS - range.length,
               @"range (%" PRIu64 " from %" PRIu64 ") leaves the %d indices", (uint64_t)range.length,
               (uint64_t)range.location, SOFT_MAX_BINDINGS);
  for (NSUInteger i = 0; i < range.length; i++) {
    [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i for:_cmd];
  }
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [self requireOpen:_cmd];
  [self requireIndex:index for:_cmd];
  SOFT_REQUIRE_STATE(_arguments[index].storage, @"no buffer is set at index %" PRIu64, (uint64_t)index);
  [self requireOffset:offset within:_arguments[index].length for:_cmd];
  _arguments[index].offset = offset;
}

- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  [self requireOpen:_cmd];
  [self requireIndex:index for:_cmd];
  SOFT_REQUIRE(bytes, @"bytes must not be NULL");
  SOFT_REQUIRE(length > 0, @"length is 0");
  SOFT_REQUIRE(length <= MAX_INLINE_BYTES, @"length (%" PRIu64 ") exceeds the %d bytes that go by value",
               (uint64_t)length, MAX_INLINE_BYTES);
  void *copy = [_commandBuffer keepBytes:bytes length:length for:_cmd];
  [self bind:(soft_argument){.bytes = copy, .length = length} atIndex:index];
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  [self requireOpen:_cmd];
  [self requireIndex:index for:_cmd];
  NSUInteger limit = [self softDevice].maxThreadgroupMemoryLength;
  SOFT_REQUIRE(length % THREADGROUP_MEMORY_UNIT == 0, @"length (%" PRIu64 ") is not a multiple of %d", (uint64_t)length,
               THREADGROUP_MEMORY_UNIT);
  SOFT_REQUIRE(length <= limit, @"length (%" PRIu64 ") exceeds maxThreadgroupMemoryLength (%" PRIu64 ")",
               (uint64_t)length, (uint64_t)limit);
  _threadgroupMemory[index] = (uint32_t)length;
  if (index >= _threadgroupMemoryCount) _threadgroupMemoryCount = (uint32_t)index + 1;
}

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  [self requireOpen:_cmd];
  SoftPipeline *pipeline = soft_require_pipeline(self, _cmd, @"state", state, [self softDevice]);
  [_commandBuffer usePipeline:pipeline];
  [_kernel release];
  _kernel = [[pipeline kernel] retain];
}

#pragma mark Resources and barriers

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  const id<MTLResource> resources[] = {resource};
  [self useResources:resources count:1 usage:usage];
}

- (void)useResources:(const id<MTLResource>[])resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  [self requireOpen:_cmd];
  const MTLResourceUsage known = MTLResourceUsageRead | MTLResourceUsageWrite;
  SOFT_REQUIRE(usage && !(usage & ~known), @"usage (%" PRIu64 ") is not read, write or both", (uint64_t)usage);
  for (NSUInteger i = 0; i < count; i++) {
    [_commandBuffer useBuffer:soft_require_buffer(self, _cmd, @"resource", resources[i], [self softDevice])];
  }
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  [self requireOpen:_cmd];
  const MTLBarrierScope known = MTLBarrierScopeBuffers | MTLBarrierScopeTextures;
  SOFT_REQUIRE(scope && !(scope & ~known), @"scope (%" PRIu64 ") is not that of a compute encoder", (uint64_t)scope);
  _overlaps = NO;
}

- (void)memoryBarrierWithResources:(const id<MTLResource>[])resources count:(NSUInteger)count {
  [self requireOpen:_cmd];
  for (NSUInteger i = 0; i < count; i++) {
    soft_require_buffer(self, _cmd, @"resource", resources[i], [self softDevice]);
  }
  _overlaps = NO;
}

#pragma mark Dispatch

- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  [self dispatch:threadgroupsPerGrid named:@"threadgroupsPerGrid" threads:NO group:threadsPerThreadgroup for:_cmd];
}

- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  [self dispatch:threadsPerGrid named:@"threadsPerGrid" threads:YES group:threadsPerThreadgroup for:_cmd];
}

- (void)requireSize:(MTLSize)size named:(NSString *)name upTo:(MTLSize)limit for:(SEL)selector {
  BOOL within = size.width > 0 && size.height > 0 && size.depth > 0 && size.width <= limit.width &&
                size.height <= limit.height && size.depth <= limit.depth;
  if (!within) {
    soft_invalid(self, selector, @"%@ (%" PRIu64 " x %" PRIu64 " x %" PRIu64 ") must be from 1 x 1 x 1 to %" PRIu64
                                 @" x %" PRIu64 " x %" PRIu64,
                 name, (uint64_t)size.width, (uint64_t)size.height, (uint64_t)size.depth, (uint64_t)limit.width,
                 (uint64_t)limit.height, (uint64_t)limit.depth);
  }
}

- (void)requireThreads:(MTLSize)group threadgroupMemoryFor:(SEL)selector {
  soft_function_info info = [[_kernel function] info];
  NSUInteger threads = group.width * group.height * group.depth;
  if (threads > info.max_total_threads_per_threadgroup) {
    soft_invalid(self, selector, @"threadsPerThreadgroup is %" PRIu64 " threads; kernel '%@' takes at most %u",
                 (uint64_t)threads, [[_kernel function] name], info.max_total_threads_per_threadgroup);
  }
  NSUInteger memory = info.static_threadgroup_memory;
  for (NSUInteger i = 0; i < _threadgroupMemoryCount; i++) memory += _threadgroupMemory[i];
  NSUInteger limit = [self softDevice].maxThreadgroupMemoryLength;
  if (memory > limit) {
    soft_invalid(self, selector,
                 @"threadgroup memory is %" PRIu64 " bytes in all; maxThreadgroupMemoryLength is %" PRIu64,
                 (uint64_t)memory, (uint64_t)limit);
  }
}

/* As Metal's validation layer, which looks at the kernel's reflection. */
- (void)requireBindingsFor:(SEL)selector {
  soft_parameter parameters[SOFT_MAX_PARAMETERS];
  SoftFunction *function = [_kernel function];
  uint32_t count = [function parameters:parameters];
  if (count == SOFT_UNKNOWN) return;
  for (uint32_t i = 0; i < count; i++) {
    const soft_parameter *parameter = &parameters[i];
    uint32_t index = parameter->index;
    if (parameter->threadgroup) {
      if (index < _threadgroupMemoryCount && _threadgroupMemory[index] > 0) continue;
      soft_invalid(self, selector, @"kernel '%@': threadgroup memory %u has no length", [function name], index);
    }
    const soft_argument *argument = index < _argumentCount ? &_arguments[index] : NULL;
    if (!argument || !argument->length)
      soft_invalid(self, selector, @"kernel '%@': nothing is bound to buffer index %u", [function name], index);
    if (argument->length - argument->offset < parameter->size)
      soft_invalid(self, selector, @"kernel '%@': %" PRIu64 " bytes are bound to buffer index %u, and it takes %" PRIu64,
                   [function name], (uint64_t)(argument->length - argument->offset), index, (uint64_t)parameter->size);
    if (parameter->alignment > 1 && argument->offset % parameter->alignment)
      soft_invalid(self, selector, @"kernel '%@': offset %" PRIu64 " at buffer index %u is not aligned to %" PRIu64
                   @" bytes", [function name], (uint64_t)argument->offset, index, (uint64_t)parameter->alignment);
  }
}

- (void)dispatch:(MTLSize)grid named:(NSString *)name threads:(BOOL)threads group:(MTLSize)group for:(SEL)selector {
  [self requireOpen:selector];
  if (!_kernel) soft_inconsistent(self, selector, @"no compute pipeline state is set");
  [self requireSize:grid named:name upTo:MTLSizeMake(UINT32_MAX, UINT32_MAX, UINT32_MAX) for:selector];
  [self requireSize:group
              named:@"threadsPerThreadgroup"
               upTo:[self softDevice].maxThreadsPerThreadgroup
                for:selector];
  [self requireThreads:group threadgroupMemoryFor:selector];
  if ([[self softDevice] isStrict]) [self requireBindingsFor:selector];

  soft_dispatch dispatch = {
      .function = [[_kernel function] handle],
      .grid = {(uint32_t)grid.width, (uint32_t)grid.height, (uint32_t)grid.depth},
      .threadgroup = {(uint32_t)group.width, (uint32_t)group.height, (uint32_t)group.depth},
      .threads = threads,
  };
  [self copyArgumentsTo:&dispatch for:selector];
  soft_command *command = [_commandBuffer addCommandFor:selector];
  command->kind = SOFT_DISPATCH;
  command->concurrent = _overlaps;
  command->dispatch = dispatch;
  _overlaps = _dispatchType == MTLDispatchTypeConcurrent;
}

/* The tables as they are now. */
- (void)copyArgumentsTo:(soft_dispatch *)dispatch for:(SEL)selector {
  if (_threadgroupMemoryCount) {
    size_t size = sizeof *_threadgroupMemory;
    uint32_t *memory = [_commandBuffer addTableOf:_threadgroupMemoryCount size:size for:selector];
    memcpy(memory, _threadgroupMemory, _threadgroupMemoryCount * size);
    dispatch->threadgroup_memory = memory;
    dispatch->threadgroup_memory_count = _threadgroupMemoryCount;
  }
  if (!_argumentCount) return;
  soft_binding *bindings = [_commandBuffer addTableOf:_argumentCount size:sizeof *bindings for:selector];
  for (uint32_t i = 0; i < _argumentCount; i++) {
    const soft_argument *argument = &_arguments[i];
    if (!argument->length) continue;
    bindings[i] = (soft_binding){.buffer = [argument->storage buffer],
                                 .bytes = argument->bytes,
                                 .offset = argument->offset,
                                 .length = argument->length - argument->offset};
  }
  dispatch->bindings = bindings;
  dispatch->binding_count = _argumentCount;
}

@end
