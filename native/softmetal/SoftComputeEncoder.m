#import "SoftComputeEncoder.h"

#import "SoftBuffer.h"
#import "SoftDevice.h"
#import "SoftPipeline.h"
#import "SoftSampler.h"
#import "SoftTexture.h"
#import "SoftValidation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INLINE_BYTES = 4096, THREADGROUP_MEMORY_UNIT = 16 };

@implementation SoftComputeEncoder

SOFT_COUNTED(SoftComputeEncoder)

- (instancetype)initWithCommandBuffer:(SoftCommandBuffer *)commandBuffer dispatchType:(MTLDispatchType)dispatchType {
  self = [super initWithCommandBuffer:commandBuffer];
  if (!self) return nil;
  _dispatchType = dispatchType;
  _isStrict = [_softDevice isStrict];
  _maxThreads = [_softDevice maxThreadsPerThreadgroup];
  _maxThreadgroupMemory = [_softDevice maxThreadgroupMemoryLength];
  return self;
}

- (void)dealloc {
  free(_images);
  [super dealloc];
}

- (MTLDispatchType)dispatchType {
  return _dispatchType;
}

#pragma mark The argument table

/* What every dispatch of every kernel goes through is functions: a message costs as much as several of them. */

static void require_open(SoftComputeEncoder *encoder, SEL selector) {
  if (encoder->_ended) [encoder requireOpen:selector];
}

static void require_index(SoftComputeEncoder *encoder, SEL selector, NSUInteger index) {
  if (index >= SOFT_MAX_BINDINGS)
    soft_invalid(encoder, selector, @"index (%" PRIu64 ") must be below %d", (uint64_t)index, SOFT_MAX_BINDINGS);
}

static void require_offset(SoftComputeEncoder *encoder, SEL selector, NSUInteger offset, NSUInteger length) {
  if (offset >= length)
    soft_invalid(encoder, selector, @"offset (%" PRIu64 ") is not inside a buffer of %" PRIu64 " bytes",
                 (uint64_t)offset, (uint64_t)length);
}

static void set_argument(SoftComputeEncoder *encoder, NSUInteger index, soft_argument argument) {
  encoder->_arguments[index] = argument;
  if (index >= encoder->_argumentCount) encoder->_argumentCount = (uint32_t)index + 1;
}

static void bind_buffer(SoftComputeEncoder *encoder, SEL selector, id<MTLBuffer> buffer, NSUInteger offset,
                        NSUInteger index) {
  require_index(encoder, selector, index);
  if (!buffer) {
    set_argument(encoder, index, (soft_argument){0});
    return;
  }
  SoftBuffer *bound = soft_require_buffer(encoder, selector, @"buffer", buffer, encoder->_softDevice);
  SoftStorage *storage = bound->_storage;
  require_offset(encoder, selector, offset, bound->_length);
  soft_command_buffer_use(encoder->_commandBuffer, selector, storage, bound);
  set_argument(encoder, index, (soft_argument){.buffer = storage->_buffer, .length = bound->_length, .offset = offset});
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  require_open(self, _cmd);
  bind_buffer(self, _cmd, buffer, offset, index);
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
  require_open(self, _cmd);
  SOFT_REQUIRE(buffers && offsets, @"buffers and offsets must not be NULL");
  SOFT_REQUIRE(range.length <= SOFT_MAX_BINDINGS && range.location <= SOFT_MAX_BINDINGS - range.length,
               @"range (%" PRIu64 " from %" PRIu64 ") leaves the %d indices", (uint64_t)range.length,
               (uint64_t)range.location, SOFT_MAX_BINDINGS);
  for (NSUInteger i = 0; i < range.length; i++)
    bind_buffer(self, _cmd, buffers[i], offsets[i], range.location + i);
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  require_open(self, _cmd);
  require_index(self, _cmd, index);
  SOFT_REQUIRE_STATE(_arguments[index].buffer, @"no buffer is set at index %" PRIu64, (uint64_t)index);
  require_offset(self, _cmd, offset, _arguments[index].length);
  _arguments[index].offset = offset;
}

- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, _cmd);
  require_index(self, _cmd, index);
  SOFT_REQUIRE(bytes, @"bytes must not be NULL");
  SOFT_REQUIRE(length > 0, @"length is 0");
  SOFT_REQUIRE(length <= MAX_INLINE_BYTES, @"length (%" PRIu64 ") exceeds the %d bytes that go by value",
               (uint64_t)length, MAX_INLINE_BYTES);
  void *copy = [_commandBuffer keepBytes:bytes length:length for:_cmd];
  set_argument(self, index, (soft_argument){.bytes = copy, .length = length});
}

- (soft_images *)imagesFor:(SEL)selector {
  if (!_images) _images = calloc(1, sizeof *_images);
  if (!_images) soft_inconsistent(self, selector, @"out of memory");
  return _images;
}

- (void)setTexture:(id<MTLTexture>)texture atIndex:(NSUInteger)index for:(SEL)selector {
  require_open(self, selector);
  if (index >= SOFT_MAX_TEXTURES)
    soft_invalid(self, selector, @"index (%" PRIu64 ") must be below %d", (uint64_t)index, SOFT_MAX_TEXTURES);
  SoftTexture *bound = texture ? soft_require_texture(self, selector, @"texture", texture, _softDevice) : nil;
  soft_images *images = [self imagesFor:selector];
  if (bound) soft_command_buffer_use(_commandBuffer, selector, [bound storage], bound);
  images->textures[index] = bound ? *[bound layout] : (soft_texture){0};
  images->usages[index] = bound.usage;
  if (index >= images->texture_count) images->texture_count = (uint32_t)index + 1;
}

- (void)setTexture:(id<MTLTexture>)texture atIndex:(NSUInteger)index {
  [self setTexture:texture atIndex:index for:_cmd];
}

- (void)setSamplerState:(id<MTLSamplerState>)sampler atIndex:(NSUInteger)index for:(SEL)selector {
  require_open(self, selector);
  if (index >= SOFT_MAX_SAMPLERS)
    soft_invalid(self, selector, @"index (%" PRIu64 ") must be below %d", (uint64_t)index, SOFT_MAX_SAMPLERS);
  SoftSampler *bound = sampler ? soft_require_sampler(self, selector, sampler, _softDevice) : nil;
  soft_images *images = [self imagesFor:selector];
  images->samplers[index] = bound ? *[bound state] : (soft_sampler){0};
  if (index >= images->sampler_count) images->sampler_count = (uint32_t)index + 1;
}

- (void)setSamplerState:(id<MTLSamplerState>)sampler atIndex:(NSUInteger)index {
  [self setSamplerState:sampler atIndex:index for:_cmd];
}

- (void)requireRange:(NSRange)range upTo:(NSUInteger)most for:(SEL)selector {
  if (range.length <= most && range.location <= most - range.length) return;
  soft_invalid(self, selector, @"range (%" PRIu64 " from %" PRIu64 ") leaves the %" PRIu64 " indices",
               (uint64_t)range.length, (uint64_t)range.location, (uint64_t)most);
}

- (void)setTextures:(const id<MTLTexture>[])textures withRange:(NSRange)range {
  [self requireRange:range upTo:SOFT_MAX_TEXTURES for:_cmd];
  SOFT_REQUIRE(textures, @"textures must not be NULL");
  for (NSUInteger i = 0; i < range.length; i++) [self setTexture:textures[i] atIndex:range.location + i for:_cmd];
}

- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers withRange:(NSRange)range {
  [self requireRange:range upTo:SOFT_MAX_SAMPLERS for:_cmd];
  SOFT_REQUIRE(samplers, @"samplers must not be NULL");
  for (NSUInteger i = 0; i < range.length; i++)
    [self setSamplerState:samplers[i] atIndex:range.location + i for:_cmd];
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, _cmd);
  require_index(self, _cmd, index);
  NSUInteger limit = _maxThreadgroupMemory;
  const NSUInteger unit = THREADGROUP_MEMORY_UNIT;
  SOFT_REQUIRE(length % unit == 0 || !_isStrict,
               @"length (%" PRIu64 ") is not a multiple of %" PRIu64, (uint64_t)length, (uint64_t)unit);
  SOFT_REQUIRE(length <= limit, @"length (%" PRIu64 ") exceeds maxThreadgroupMemoryLength (%" PRIu64 ")",
               (uint64_t)length, (uint64_t)limit);
  _threadgroupMemory[index] = (uint32_t)((length + unit - 1) / unit * unit); /* Metal's driver takes any length */
  if (index >= _threadgroupMemoryCount) _threadgroupMemoryCount = (uint32_t)index + 1;
}

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  require_open(self, _cmd);
  SoftPipeline *pipeline = soft_require_pipeline(self, _cmd, @"state", state, _softDevice);
  _kernel = [pipeline kernel];
  soft_command_buffer_use(_commandBuffer, _cmd, _kernel, pipeline);
}

#pragma mark Resources and barriers

- (void)requireResource:(id)resource used:(BOOL)used for:(SEL)selector {
  SoftDevice *device = _softDevice;
  if ([resource isKindOfClass:[SoftTexture class]]) {
    SoftTexture *texture = soft_require_texture(self, selector, @"resource", resource, device);
    if (used) soft_command_buffer_use(_commandBuffer, selector, [texture storage], texture);
    return;
  }
  SoftBuffer *buffer = soft_require_buffer(self, selector, @"resource", resource, device);
  if (used) soft_command_buffer_use(_commandBuffer, selector, [buffer storage], buffer);
}

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  const id<MTLResource> resources[] = {resource};
  [self useResources:resources count:1 usage:usage];
}

- (void)useResources:(const id<MTLResource>[])resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  require_open(self, _cmd);
  const MTLResourceUsage known = MTLResourceUsageRead | MTLResourceUsageWrite;
  SOFT_REQUIRE(usage && !(usage & ~known), @"usage (%" PRIu64 ") is not read, write or both", (uint64_t)usage);
  for (NSUInteger i = 0; i < count; i++) [self requireResource:resources[i] used:YES for:_cmd];
}

- (void)useHeap:(id<MTLHeap>)heap {
  const id<MTLHeap> heaps[] = {heap};
  [self useHeaps:heaps count:1];
}

/* A heap's buffers are where kernels find them without being told. */
- (void)useHeaps:(const id<MTLHeap>[])heaps count:(NSUInteger)count {
  require_open(self, _cmd);
  for (NSUInteger i = 0; i < count; i++) soft_require_heap(self, _cmd, @"heap", heaps[i], _softDevice);
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  require_open(self, _cmd);
  const MTLBarrierScope known = MTLBarrierScopeBuffers | MTLBarrierScopeTextures;
  SOFT_REQUIRE(scope && !(scope & ~known), @"scope (%" PRIu64 ") is not that of a compute encoder", (uint64_t)scope);
  _overlaps = NO;
}

- (void)memoryBarrierWithResources:(const id<MTLResource>[])resources count:(NSUInteger)count {
  require_open(self, _cmd);
  for (NSUInteger i = 0; i < count; i++) [self requireResource:resources[i] used:NO for:_cmd];
  _overlaps = NO;
}

#pragma mark Dispatch

- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  [self dispatch:threadgroupsPerGrid named:@"threadgroupsPerGrid" threads:NO group:threadsPerThreadgroup for:_cmd];
}

- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  [self dispatch:threadsPerGrid named:@"threadsPerGrid" threads:YES group:threadsPerThreadgroup for:_cmd];
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  const NSUInteger length = sizeof(MTLDispatchThreadgroupsIndirectArguments);
  [self requireKernelFor:_cmd];
  SoftBackend *backend = [_softDevice backend];
  SOFT_REQUIRE_STATE([backend capabilities]->flags & SOFT_INDIRECT,
                     @"indirect dispatches are not supported on this backend (%@)", [backend name]);
  SoftBuffer *bound = soft_require_buffer(self, _cmd, @"indirectBuffer", buffer, _softDevice);
  SOFT_REQUIRE(offset % sizeof(uint32_t) == 0, @"indirectBufferOffset (%" PRIu64 ") is not a multiple of 4",
               (uint64_t)offset);
  soft_require_range(self, _cmd, @"indirectBuffer", offset, length, bound.length);
  [self requireGroup:threadsPerThreadgroup for:_cmd];
  soft_command_buffer_use(_commandBuffer, _cmd, [bound storage], bound);
  [self encode:(soft_dispatch){.indirect = [[bound storage] buffer], .indirect_offset = offset}
         group:threadsPerThreadgroup
           for:_cmd];
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
  const soft_function_info *info = &_kernel->_info;
  NSUInteger threads = group.width * group.height * group.depth;
  if (threads > info->max_total_threads_per_threadgroup) {
    soft_invalid(self, selector, @"threadsPerThreadgroup is %" PRIu64 " threads; kernel '%@' takes at most %u",
                 (uint64_t)threads, [[_kernel function] name], info->max_total_threads_per_threadgroup);
  }
  NSUInteger memory = info->static_threadgroup_memory;
  for (NSUInteger i = 0; i < _threadgroupMemoryCount; i++) memory += _threadgroupMemory[i];
  if (!memory) return;
  NSUInteger limit = _maxThreadgroupMemory;
  if (memory > limit) {
    soft_invalid(self, selector,
                 @"threadgroup memory is %" PRIu64 " bytes in all; maxThreadgroupMemoryLength is %" PRIu64,
                 (uint64_t)memory, (uint64_t)limit);
  }
}

- (void)requireImage:(const soft_parameter *)parameter for:(SEL)selector {
  NSString *name = [[_kernel function] name];
  uint32_t index = parameter->index;
  if (parameter->kind == SOFT_PARAMETER_SAMPLER) {
    if (!_images || !_images->samplers[index].bound)
      soft_invalid(self, selector, @"kernel '%@': nothing is bound to sampler index %u", name, index);
    return;
  }
  if (!_images || !_images->textures[index].buffer)
    soft_invalid(self, selector, @"kernel '%@': nothing is bound to texture index %u", name, index);
  MTLTextureUsage usage = _images->usages[index];
  if (usage == MTLTextureUsageUnknown) return;
  if (parameter->readable && !(usage & MTLTextureUsageShaderRead))
    soft_invalid(self, selector, @"kernel '%@' reads texture index %u, whose usage has no ShaderRead", name, index);
  if (parameter->writable && !(usage & MTLTextureUsageShaderWrite))
    soft_invalid(self, selector, @"kernel '%@' writes texture index %u, whose usage has no ShaderWrite", name, index);
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
    if (parameter->kind == SOFT_PARAMETER_TEXTURE || parameter->kind == SOFT_PARAMETER_SAMPLER) {
      [self requireImage:parameter for:selector];
      continue;
    }
    if (parameter->kind == SOFT_PARAMETER_THREADGROUP) {
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

- (void)requireKernelFor:(SEL)selector {
  require_open(self, selector);
  if (!_kernel) soft_inconsistent(self, selector, @"no compute pipeline state is set");
}

- (void)requireGroup:(MTLSize)group for:(SEL)selector {
  [self requireSize:group named:@"threadsPerThreadgroup" upTo:_maxThreads for:selector];
  [self requireThreads:group threadgroupMemoryFor:selector];
  if (_isStrict) [self requireBindingsFor:selector];
}

- (void)dispatch:(MTLSize)grid named:(NSString *)name threads:(BOOL)threads group:(MTLSize)group for:(SEL)selector {
  [self requireKernelFor:selector];
  BOOL empty = grid.width == 0 || grid.height == 0 || grid.depth == 0;
  BOOL skipped = empty && !_isStrict; /* Metal's driver runs nothing and says nothing */
  if (!skipped)
    [self requireSize:grid named:name upTo:MTLSizeMake(UINT32_MAX, UINT32_MAX, UINT32_MAX) for:selector];
  [self requireGroup:group for:selector];
  if (skipped) return;
  [self encode:(soft_dispatch){.grid = {(uint32_t)grid.width, (uint32_t)grid.height, (uint32_t)grid.depth},
                               .threads = threads}
         group:group
           for:selector];
}

/* A dispatch whose grid is there. */
- (void)encode:(soft_dispatch)dispatch group:(MTLSize)group for:(SEL)selector {
  dispatch.function = _kernel->_handle;
  dispatch.threadgroup[0] = (uint32_t)group.width;
  dispatch.threadgroup[1] = (uint32_t)group.height;
  dispatch.threadgroup[2] = (uint32_t)group.depth;
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
  if (_images) {
    dispatch->textures = [_commandBuffer keepBytes:_images->textures
                                            length:_images->texture_count * sizeof *_images->textures
                                               for:selector];
    dispatch->samplers = [_commandBuffer keepBytes:_images->samplers
                                            length:_images->sampler_count * sizeof *_images->samplers
                                               for:selector];
    dispatch->texture_count = _images->texture_count;
    dispatch->sampler_count = _images->sampler_count;
  }
  if (!_argumentCount) return;
  soft_binding *bindings = [_commandBuffer addTableOf:_argumentCount size:sizeof *bindings for:selector];
  for (uint32_t i = 0; i < _argumentCount; i++) {
    const soft_argument *argument = &_arguments[i];
    if (!argument->length) continue;
    bindings[i] = (soft_binding){.buffer = argument->buffer,
                                 .bytes = argument->bytes,
                                 .offset = argument->offset,
                                 .length = argument->length - argument->offset};
  }
  dispatch->bindings = bindings;
  dispatch->binding_count = _argumentCount;
}

@end
