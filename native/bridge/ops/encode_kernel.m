/* Dispatches of the caller's own kernels. */
#include <stdio.h>

#import "device/commands.h"
#import "base/entry.h"
#import "base/handle.h"
#import "base/structs.h"
#import "device/trace.h"
#import "textures.h"
#import "user_kernel.h"

enum {
  MAX_INDEX = 31,
  MAX_TEXTURES = 128,
  MAX_SAMPLERS = 16,
  MAX_BYTES = 4096,
  MAX_ARGUMENTS = 2 * MAX_INDEX + MAX_TEXTURES + MAX_SAMPLERS,
};

/* A set of indices of an argument table. */
typedef struct Indices {
  uint64_t words[2];
} Indices;

static bool has_index(const Indices *set, uint32_t index) { return set->words[index / 64] >> index % 64 & 1; }
static void add_index(Indices *set, uint32_t index) { set->words[index / 64] |= UINT64_C(1) << index % 64; }

/* The arguments, checked: element i belongs to argument i of the caller. */
typedef struct Bindings {
  char names[MAX_ARGUMENTS][32]; /* "arguments[3]" */
  IronUse uses[MAX_ARGUMENTS];   /* of the buffers, in order */
  size_t use_count;
  size_t copies; /* textures that are copies */
  uint64_t bytes; /* of all buffers, from the offsets on */
  uint64_t threadgroup_memory;
  Indices buffers_bound, threadgroup_bound, textures_bound, samplers_bound;
} Bindings;

static iron_status check_index(Indices *bound, uint32_t count, const iron_argument *argument, const char *name) {
  if (argument->index >= count)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: index %u, the last one is %u", name, argument->index,
                           count - 1);
  if (has_index(bound, argument->index))
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: index %u is given twice", name, argument->index);
  add_index(bound, argument->index);
  return IRON_OK;
}

/* A buffer, or one that a texture is in. */
static iron_status check_buffer(Bindings *bindings, const iron_argument *argument, const char *name,
                                IronDevice *device) {
  IronBuffer *buffer = IronBufferAcquire(argument->buffer, name);
  if (!buffer) return IRON_ERROR_INVALID_HANDLE;
  if (buffer->device != device) return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "%s: a buffer of another device", name);
  IRON_TRY(IronWeightsRefuse(buffer, name));
  if (argument->offset >= buffer->length)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: offset %llu, the buffer has %llu bytes", name,
                           (unsigned long long)argument->offset, (unsigned long long)buffer->length);
  if (argument->access < IRON_ACCESS_READ || argument->access > IRON_ACCESS_READ_WRITE)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: access %u is none", name, argument->access);
  if ((argument->access & IRON_ACCESS_WRITE) && buffer->read_only)
    return IronErrorReport(IRON_ERROR_READ_ONLY, "%s: the buffer was made read_only", name);
  bindings->uses[bindings->use_count++] = (IronUse){name, buffer, argument->access, false};
  bindings->bytes += buffer->length - argument->offset;
  return IRON_OK;
}

static iron_status check_bytes(Bindings *bindings, const iron_argument *argument, const char *name) {
  IRON_TRY(check_index(&bindings->buffers_bound, MAX_INDEX, argument, name));
  if (!argument->bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", name);
  if (argument->length == 0 || argument->length > MAX_BYTES)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: %llu bytes, 1 to %d are possible", name,
                           (unsigned long long)argument->length, MAX_BYTES);
  return IRON_OK;
}

static iron_status check_threadgroup_memory(Bindings *bindings, const iron_argument *argument, const char *name) {
  IRON_TRY(check_index(&bindings->threadgroup_bound, MAX_INDEX, argument, name));
  if (argument->length == 0 || argument->length % 16 || argument->length > UINT32_MAX)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "%s: %llu bytes of threadgroup memory, a multiple of 16 is needed", name,
                           (unsigned long long)argument->length);
  bindings->threadgroup_memory += argument->length;
  return IRON_OK;
}

static iron_status check_texture(Bindings *bindings, const iron_argument *argument, const char *name,
                                 IronDevice *device) {
  IRON_TRY(check_index(&bindings->textures_bound, MAX_TEXTURES, argument, name));
  IRON_TRY(IronTextureRead(argument, name, device));
  IRON_TRY(check_buffer(bindings, argument, name, device));
  IronUse *use = &bindings->uses[bindings->use_count - 1];
  IRON_TRY(IronTextureFits(argument, name, use->buffer));
  if (!IronTextureIsCopied(argument)) return IRON_OK;
  /* Texels that the kernel does not write go back as they were. */
  use->access |= IRON_ACCESS_READ;
  bindings->copies++;
  return IRON_OK;
}

static iron_status check_sampler(Bindings *bindings, const iron_argument *argument, const char *name) {
  IRON_TRY(check_index(&bindings->samplers_bound, MAX_SAMPLERS, argument, name));
  return IronTextureSamplerRead(argument, name);
}

static iron_status check_arguments(Bindings *bindings, const iron_dispatch *dispatch, IronKernel *kernel) {
  if (!dispatch->arguments && dispatch->argument_count > 0)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "arguments: is NULL, argument_count is %zu",
                           dispatch->argument_count);
  if (dispatch->argument_count > MAX_ARGUMENTS)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "argument_count: %zu, there are indices for %d",
                           dispatch->argument_count, MAX_ARGUMENTS);
  for (size_t index = 0; index < dispatch->argument_count; index++) {
    const iron_argument *argument = &dispatch->arguments[index];
    char *name = bindings->names[index];
    snprintf(name, sizeof bindings->names[index], "arguments[%zu]", index);
    IRON_CHECK_RESERVED(name, *argument);
    switch (argument->kind) {
      case IRON_ARGUMENT_BUFFER:
        IRON_TRY(check_index(&bindings->buffers_bound, MAX_INDEX, argument, name));
        IRON_TRY(check_buffer(bindings, argument, name, kernel->device));
        break;
      case IRON_ARGUMENT_TEXTURE: IRON_TRY(check_texture(bindings, argument, name, kernel->device)); break;
      case IRON_ARGUMENT_SAMPLER: IRON_TRY(check_sampler(bindings, argument, name)); break;
      case IRON_ARGUMENT_BYTES: IRON_TRY(check_bytes(bindings, argument, name)); break;
      case IRON_ARGUMENT_THREADGROUP: IRON_TRY(check_threadgroup_memory(bindings, argument, name)); break;
      default: return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: kind %u is none", name, argument->kind);
    }
  }
  uint64_t memory = bindings->threadgroup_memory + [kernel->state staticThreadgroupMemoryLength];
  uint64_t most = [kernel->device->metal maxThreadgroupMemoryLength];
  if (memory <= most) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE,
                         "arguments: %llu bytes of threadgroup memory in all, the device has %llu",
                         (unsigned long long)memory, (unsigned long long)most);
}

/* The argument for a parameter of the kernel's, or NULL. */
static const iron_argument *argument_of(const iron_dispatch *dispatch, const IronParameter *parameter, size_t *place) {
  for (size_t index = 0; index < dispatch->argument_count; index++) {
    const iron_argument *argument = &dispatch->arguments[index];
    iron_argument_kind kind = argument->kind == IRON_ARGUMENT_BYTES ? IRON_ARGUMENT_BUFFER : argument->kind;
    if (argument->index != parameter->index || kind != parameter->kind) continue;
    *place = index;
    return argument;
  }
  return NULL;
}

static bool uses_buffer(const iron_argument *argument) {
  return argument->kind == IRON_ARGUMENT_BUFFER || argument->kind == IRON_ARGUMENT_TEXTURE;
}

/* How many bytes an argument binds. `uses` are those of its dispatch's buffers, in order. */
static uint64_t bytes_bound(const Bindings *bindings, const iron_dispatch *dispatch, size_t place) {
  const iron_argument *argument = &dispatch->arguments[place];
  if (argument->kind != IRON_ARGUMENT_BUFFER) return argument->length;
  size_t buffer = 0;
  for (size_t index = 0; index < place; index++) buffer += uses_buffer(&dispatch->arguments[index]);
  return bindings->uses[buffer].buffer->length - argument->offset;
}

static iron_status check_parameter(const Bindings *bindings, const iron_dispatch *dispatch,
                                   const IronParameter *parameter) {
  static const char *const kinds[] = {[IRON_ARGUMENT_BUFFER] = "buffer",
                                      [IRON_ARGUMENT_THREADGROUP] = "threadgroup memory",
                                      [IRON_ARGUMENT_TEXTURE] = "texture",
                                      [IRON_ARGUMENT_SAMPLER] = "sampler"};
  const char *kind = kinds[parameter->kind];
  size_t place;
  const iron_argument *argument = argument_of(dispatch, parameter, &place);
  if (!argument)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "arguments: nothing is given for the kernel's %s index %u", kind,
                           parameter->index);
  if (parameter->kind == IRON_ARGUMENT_SAMPLER) return IRON_OK;
  if (parameter->kind == IRON_ARGUMENT_TEXTURE)
    return IronTextureSuits(argument, bindings->names[place], parameter->texture_type, parameter->texture_value);
  uint64_t bytes = bytes_bound(bindings, dispatch, place);
  if (bytes < parameter->size)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %llu bytes for the kernel's %s index %u, which takes %llu",
                           bindings->names[place], (unsigned long long)bytes, kind, parameter->index,
                           (unsigned long long)parameter->size);
  if (argument->kind == IRON_ARGUMENT_BUFFER && argument->offset % parameter->alignment)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "%s: offset %llu is no multiple of %llu, as the kernel's buffer index %u needs",
                           bindings->names[place], (unsigned long long)argument->offset,
                           (unsigned long long)parameter->alignment, parameter->index);
  return IRON_OK;
}

/* Metal on a GPU does not refuse what a kernel cannot use: without validation, the kernel computes nonsense. */
static iron_status check_parameters(const Bindings *bindings, const iron_dispatch *dispatch, const IronKernel *kernel) {
  if (!kernel->reflected) return IRON_OK;
  Indices memory = {{0}};
  for (size_t index = 0; index < kernel->parameter_count; index++) {
    const IronParameter *parameter = &kernel->parameters[index];
    IRON_TRY(check_parameter(bindings, dispatch, parameter));
    if (parameter->kind == IRON_ARGUMENT_THREADGROUP) add_index(&memory, parameter->index);
  }
  uint64_t without = bindings->threadgroup_bound.words[0] & ~memory.words[0];
  if (!without) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "arguments: the kernel has no threadgroup memory index %d",
                         __builtin_ctzll(without));
}

static iron_status check_grid(const iron_dispatch *dispatch, IronKernel *kernel) {
  MTLSize widest = [kernel->device->metal maxThreadsPerThreadgroup];
  const uint64_t limits[3] = {widest.width, widest.height, widest.depth};
  uint64_t threads = 1;
  IRON_TRY(IronTruthCheck("threads", dispatch->threads));
  for (int axis = 0; axis < 3; axis++) {
    uint64_t grid = dispatch->grid[axis], group = dispatch->threadgroup[axis];
    if (grid == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "grid[%d]: is 0", axis);
    if (group == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "threadgroup[%d]: is 0", axis);
    if (group > limits[axis])
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "threadgroup[%d]: %llu threads, the device allows %llu", axis,
                             (unsigned long long)group, (unsigned long long)limits[axis]);
    if (!dispatch->threads && grid * group > UINT32_MAX)
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE,
                             "grid[%d]: %llu threadgroups of %llu threads are more than a kernel can count", axis,
                             (unsigned long long)grid, (unsigned long long)group);
    threads *= group; /* three limits of at most 2^21 or so */
  }
  uint64_t most = [kernel->state maxTotalThreadsPerThreadgroup];
  if (threads <= most) return IRON_OK;
  return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "threadgroup: %llu threads, this kernel allows %llu",
                         (unsigned long long)threads, (unsigned long long)most);
}

/* The dispatch's textures and samplers in the order of its arguments, made before anything is recorded. nil: none. */
static iron_status make_images(NSMutableArray **made, const iron_dispatch *dispatch, const Bindings *bindings,
                               IronDevice *device) {
  size_t buffer = 0;
  for (size_t index = 0; index < dispatch->argument_count; index++) {
    const iron_argument *argument = &dispatch->arguments[index];
    IronBuffer *used = uses_buffer(argument) ? bindings->uses[buffer++].buffer : nil;
    id image = nil;
    if (argument->kind == IRON_ARGUMENT_TEXTURE) IRON_TRY(IronTextureMake(&image, argument, used));
    if (argument->kind == IRON_ARGUMENT_SAMPLER) IRON_TRY(IronTextureSamplerMake(&image, argument, device));
    if (!image) continue;
    if (!*made) *made = [NSMutableArray array];
    [*made addObject:image];
  }
  return IRON_OK;
}

static void bind_arguments(id<MTLComputeCommandEncoder> encoder, const iron_dispatch *dispatch,
                           const Bindings *bindings, NSArray *images) {
  NSUInteger image = 0;
  size_t buffer = 0;
  for (size_t index = 0; index < dispatch->argument_count; index++) {
    const iron_argument *argument = &dispatch->arguments[index];
    if (argument->kind == IRON_ARGUMENT_BUFFER)
      [encoder setBuffer:bindings->uses[buffer++].buffer->metal offset:argument->offset atIndex:argument->index];
    else if (argument->kind == IRON_ARGUMENT_BYTES)
      [encoder setBytes:argument->bytes length:argument->length atIndex:argument->index];
    else if (argument->kind == IRON_ARGUMENT_THREADGROUP)
      [encoder setThreadgroupMemoryLength:argument->length atIndex:argument->index];
    else if (argument->kind == IRON_ARGUMENT_SAMPLER)
      [encoder setSamplerState:[images objectAtIndex:image++] atIndex:argument->index];
    else
      [encoder setTexture:[images objectAtIndex:image++] atIndex:argument->index];
    buffer += argument->kind == IRON_ARGUMENT_TEXTURE;
  }
}

/* Records the copies of textures before a dispatch, or back after it. */
static iron_status copy_textures(IronCommands *commands, const iron_dispatch *dispatch, const Bindings *bindings,
                                 NSArray *images, bool to_buffer) {
  if (!bindings->copies) return IRON_OK;
  id<MTLBlitCommandEncoder> encoder = nil;
  NSUInteger image = 0;
  size_t buffer = 0;
  for (size_t index = 0; index < dispatch->argument_count; index++) {
    const iron_argument *argument = &dispatch->arguments[index];
    IronBuffer *used = uses_buffer(argument) ? bindings->uses[buffer++].buffer : nil;
    bool is_texture = argument->kind == IRON_ARGUMENT_TEXTURE;
    id made = is_texture || argument->kind == IRON_ARGUMENT_SAMPLER ? [images objectAtIndex:image++] : nil;
    if (!is_texture || !IronTextureIsCopied(argument)) continue;
    if (to_buffer && !(argument->access & IRON_ACCESS_WRITE)) continue;
    if (!encoder) IRON_TRY([commands prepare:bindings->uses count:bindings->use_count blit:&encoder]);
    IronTextureCopy(encoder, argument, made, used, to_buffer);
  }
  return IRON_OK;
}

static MTLSize size_of(const uint32_t extent[3]) { return MTLSizeMake(extent[0], extent[1], extent[2]); }

static void trace(IronCommands *commands, IronLocation location, const iron_dispatch *dispatch) {
  char shape[128];
  const uint32_t *grid = dispatch->grid, *group = dispatch->threadgroup;
  snprintf(shape, sizeof shape, "grid=%ux%ux%u threadgroup=%ux%ux%u", grid[0], grid[1], grid[2], group[0], group[1],
           group[2]);
  IronTraceOperation(commands->device, location, shape);
}

iron_status iron_encode_kernel(iron_commands *handle, iron_kernel *kernel_handle, const iron_dispatch *given) {
  IRON_ENTRY {
    IronLocation location = IronLocationTake();
    iron_dispatch dispatch;
    IRON_READ_STRUCT(dispatch, given, "dispatch");
    IRON_RECORD(commands, handle);
    IronKernel *kernel = IronHandleAcquire(kernel_handle, IRON_HANDLE_KERNEL, "kernel");
    if (!kernel) return IRON_ERROR_INVALID_HANDLE;
    if (kernel->device != commands->device)
      return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "kernel: a kernel of another device");
    Bindings bindings = {.use_count = 0};
    IRON_TRY(check_arguments(&bindings, &dispatch, kernel));
    IRON_TRY(check_grid(&dispatch, kernel));
    IRON_TRY(check_parameters(&bindings, &dispatch, kernel));
    NSMutableArray *images = nil;
    IRON_TRY(make_images(&images, &dispatch, &bindings, commands->device));

    IRON_TRY(copy_textures(commands, &dispatch, &bindings, images, false));
    id<MTLComputeCommandEncoder> encoder;
    IRON_TRY([commands prepare:bindings.uses count:bindings.use_count compute:&encoder]);
    [encoder setComputePipelineState:kernel->state];
    bind_arguments(encoder, &dispatch, &bindings, images);
    if (dispatch.threads)
      [encoder dispatchThreads:size_of(dispatch.grid) threadsPerThreadgroup:size_of(dispatch.threadgroup)];
    else
      [encoder dispatchThreadgroups:size_of(dispatch.grid) threadsPerThreadgroup:size_of(dispatch.threadgroup)];
    IRON_TRY(copy_textures(commands, &dispatch, &bindings, images, true));
    [commands recorded:bindings.bytes];
    if (IronTraceIsOn()) trace(commands, location, &dispatch);
    return IRON_OK;
  } IRON_LEAVE
}
