#import "user_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#import "base/entry.h"
#import "base/handle.h"
#import "pipelines.h"
#import "base/structs.h"
#import "base/text.h"

static void count_pipelines(IronDevice *device, void (*change)(IronMemory *, iron_category, uint64_t)) {
  IronMonitorLock(&device->monitor);
  change(&device->memory, IRON_CATEGORY_PIPELINES, 0);
  IronMonitorUnlock(&device->monitor);
}

@implementation IronLibrary

IRON_COUNTED(IronLibrary)

- (void)dealloc {
  if (!IronDeviceIsInherited(device)) {
    [metal release];
    count_pipelines(device, IronMemoryRemove);
  }
  [device release];
  [super dealloc];
}

@end

@implementation IronKernel

IRON_COUNTED(IronKernel)

- (void)dealloc {
  if (!IronDeviceIsInherited(device)) {
    [state release];
    count_pipelines(device, IronMemoryRemove);
  }
  free(parameters);
  [device release];
  [super dealloc];
}

@end

#pragma mark Library

enum { MAX_MACROS = 1024 };

static iron_status make_library(IronDevice *device, id<MTLLibrary> metal, iron_library **handle) {
  IronLibrary *library = [[[IronLibrary alloc] init] autorelease];
  library->device = [device retain];
  library->metal = [metal retain];
  count_pipelines(device, IronMemoryAdd);
  return IronHandleCreate(library, IRON_HANDLE_LIBRARY, (void **)handle);
}

/* macOS 15's, under a name of its own: SDKs without it compile this, too. */
API_AVAILABLE(macos(15.0))
@protocol IronHasMathMode
- (void)setMathMode:(NSInteger)mode;
@end

/* Before macOS 15 there are only fast and safe. */
static iron_status set_math_mode(MTLCompileOptions *options, uint32_t mode) {
  static const NSInteger modes[] = {[IRON_MATH_SAFE] = 0, [IRON_MATH_RELAXED] = 1, [IRON_MATH_FAST] = 2};
  if (mode > IRON_MATH_FAST)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: math_mode %u is none", mode);
  if (mode == IRON_MATH_DEFAULT) return IRON_OK;
  if (@available(macOS 15.0, *)) {
    if ([options respondsToSelector:@selector(setMathMode:)]) {
      [(id<IronHasMathMode>)options setMathMode:modes[mode]];
      return IRON_OK;
    }
  }
  [options setFastMathEnabled:mode == IRON_MATH_FAST];
  return IRON_OK;
}

/* MTLLanguageVersion of 310 and the like. The device says itself what it does not know. */
static iron_status set_language_version(MTLCompileOptions *options, uint32_t version) {
  if (version == 0) return IRON_OK;
  if (version < 200 || version >= 1000 || version % 10)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "options: language_version %u is none; 300, 310, 320 and 400 are such", version);
  [options setLanguageVersion:(MTLLanguageVersion)((version / 100) << 16) + version % 100 / 10];
  return IRON_OK;
}

static bool is_name(const char *text) {
  size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
  return length > 0 && text[length] == '\0' && !(*text >= '0' && *text <= '9');
}

static iron_status read_macros(MTLCompileOptions *options, const iron_macro *macros, size_t count) {
  if (!macros && count > 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: macros is NULL");
  if (count > MAX_MACROS)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "options: macro_count is %zu, at most %d are possible", count,
                           MAX_MACROS);
  NSMutableDictionary *defined = [NSMutableDictionary dictionary];
  for (size_t index = 0; index < count; index++) {
    const iron_macro *macro = &macros[index];
    char argument[48];
    snprintf(argument, sizeof argument, "options.macros[%zu]", index);
    IRON_CHECK_RESERVED(argument, *macro);
    if (!macro->name || !is_name(macro->name))
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its name is no identifier", argument);
    if (macro->value && strpbrk(macro->value, "\n\r"))
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: its value has more than one line", argument);
    NSString *name, *value = @"";
    IRON_TRY(IronTextRead(&name, macro->name, argument));
    if (macro->value) IRON_TRY(IronTextRead(&value, macro->value, argument));
    if ([defined objectForKey:name])
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: %s is defined twice", argument, macro->name);
    [defined setObject:value forKey:name];
  }
  if (count > 0) [options setPreprocessorMacros:defined];
  return IRON_OK;
}

static iron_status compile(iron_device *device_handle, const char *source, const iron_library_options *given,
                           iron_library **handle) {
  iron_library_options options;
  IRON_READ_OPTIONAL_STRUCT(options, given, "options");
  if (!source || !*source)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "source: is %s", source ? "empty" : "NULL");
  IronDevice *device = IronDeviceAcquire(device_handle);
  if (!device) return IRON_ERROR_INVALID_HANDLE;
  NSString *text;
  IRON_TRY(IronTextRead(&text, source, "source"));
  MTLCompileOptions *wanted = [[[MTLCompileOptions alloc] init] autorelease];
  IRON_TRY(set_language_version(wanted, options.language_version));
  IRON_TRY(set_math_mode(wanted, options.math_mode));
  IRON_TRY(read_macros(wanted, options.macros, options.macro_count));
  iron_status status = IRON_OK;
  id<MTLLibrary> metal = IronLibraryCompile(device, text, wanted, &status);
  return metal ? make_library(device, metal, handle) : status;
}

iron_status iron_library_create(iron_device *device, const char *source, iron_library **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "library");
    return compile(device, source, NULL, handle);
  } IRON_LEAVE
}

iron_status iron_library_create_with_options(iron_device *device, const char *source,
                                             const iron_library_options *options, iron_library **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "library");
    return compile(device, source, options, handle);
  } IRON_LEAVE
}

iron_status iron_library_open(iron_device *device_handle, const char *path, iron_library **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "library");
    NSString *text;
    IRON_TRY(IronPathRead(&text, path));
    IronDevice *device = IronDeviceAcquire(device_handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if (![[NSFileManager defaultManager] isReadableFileAtPath:text])
      return IronErrorReport(IRON_ERROR_FILE, "path: %s cannot be read", path);
    NSError *error = nil;
    id<MTLLibrary> metal = [[device->metal newLibraryWithURL:[NSURL fileURLWithPath:text] error:&error] autorelease];
    if (metal) return make_library(device, metal, handle);
    bool unsupported =
        [[error domain] isEqual:MTLLibraryErrorDomain] && [error code] == (NSInteger)MTLLibraryErrorUnsupported;
    return IronErrorReport(unsupported ? IRON_ERROR_UNSUPPORTED : IRON_ERROR_FILE, "path: %s: %s", path,
                           IronErrorDescribe(error));
  } IRON_LEAVE
}

iron_status iron_library_kernel_count(iron_library *handle, uint32_t *count) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(count, "count");
    IronLibrary *library = IronHandleAcquire(handle, IRON_HANDLE_LIBRARY, "library");
    if (!library) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronDeviceCheckOpen(library->device, "library"));
    *count = (uint32_t)[[library->metal functionNames] count];
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_library_kernel_name(iron_library *handle, uint32_t index, char *text, size_t capacity,
                                     size_t *length) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(length, "length");
    if (!text && capacity > 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "text: is NULL");
    IronLibrary *library = IronHandleAcquire(handle, IRON_HANDLE_LIBRARY, "library");
    if (!library) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronDeviceCheckOpen(library->device, "library"));
    NSArray *names = [library->metal functionNames];
    if (index >= [names count])
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "index: %u, the library has %zu kernels", index,
                             (size_t)[names count]);
    const char *name = [[names objectAtIndex:index] UTF8String];
    *length = strlen(name);
    if (capacity == 0) return IRON_OK;
    if (capacity <= *length)
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "capacity: %zu, the name takes %zu bytes and a NUL", capacity,
                             *length);
    memcpy(text, name, *length + 1);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_library_retain(iron_library *handle) {
  IRON_ENTRY {
    return IronHandleRetain(handle, IRON_HANDLE_LIBRARY, "library");
  } IRON_LEAVE
}

iron_status iron_library_release(iron_library *handle) {
  IRON_ENTRY {
    return IronHandleRelease(handle, IRON_HANDLE_LIBRARY, "library");
  } IRON_LEAVE
}

#pragma mark Kernel

static iron_status check_constant(const iron_constant *constant, size_t index) {
  enum { MAX_INDEX = 65535, MAX_COMPONENTS = 4 }; /* Metal Shading Language specification, 5.8.1 */
  char name[32];
  snprintf(name, sizeof name, "constants[%zu]", index);
  IRON_CHECK_RESERVED(name, *constant);
  if (constant->name && constant->index)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: has a name and an index, %u", name, constant->index);
  if (constant->name && !*constant->name)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s.name: is empty", name);
  if (constant->index > MAX_INDEX)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s.index: %u is more than %d", name, constant->index, MAX_INDEX);
  if (constant->components > MAX_COMPONENTS)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s.components: %u is more than %d", name, constant->components,
                           MAX_COMPONENTS);
  if (constant->type != IRON_CONSTANT_BOOL) return IRON_OK;
  for (uint32_t i = 0; i < constant->components || i == 0; i++) {
    if (constant->value.booleans[i] > 1)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s.value: %u is no truth value, 0 or 1", name,
                             constant->value.booleans[i]);
  }
  return IRON_OK;
}

/* Of scalars; MTLDataTypeNone for a number that is no iron_constant_type. */
static MTLDataType type_of_constant(uint32_t type) {
  switch (type) {
    case IRON_CONSTANT_BOOL: return MTLDataTypeBool;
    case IRON_CONSTANT_I32: return MTLDataTypeInt;
    case IRON_CONSTANT_U32: return MTLDataTypeUInt;
    case IRON_CONSTANT_F32: return MTLDataTypeFloat;
    case IRON_CONSTANT_F16: return MTLDataTypeHalf;
    case IRON_CONSTANT_I16: return MTLDataTypeShort;
    case IRON_CONSTANT_U16: return MTLDataTypeUShort;
    case IRON_CONSTANT_I8: return MTLDataTypeChar;
    case IRON_CONSTANT_U8: return MTLDataTypeUChar;
    case IRON_CONSTANT_I64: return MTLDataTypeLong;
    case IRON_CONSTANT_U64: return MTLDataTypeULong;
    case IRON_CONSTANT_BF16: return (MTLDataType)121; /* MTLDataTypeBFloat, of macOS 14's SDK */
    default: return MTLDataTypeNone;
  }
}

static iron_status read_constants(MTLFunctionConstantValues *values, const iron_constant *constants, size_t count) {
  for (size_t index = 0; index < count; index++) {
    const iron_constant *constant = &constants[index];
    IRON_TRY(check_constant(constant, index));
    MTLDataType type = type_of_constant(constant->type);
    if (type == MTLDataTypeNone)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "constants[%zu].type: %u is none", index, constant->type);
    /* Vectors of two, three and four follow their scalar. */
    if (constant->components > 1) type += constant->components - 1;
    bool booleans[4];
    const void *value = &constant->value;
    if (constant->type == IRON_CONSTANT_BOOL) {
      for (size_t i = 0; i < 4; i++) booleans[i] = constant->value.booleans[i] != 0;
      value = booleans;
    }
    if (!constant->name) {
      [values setConstantValue:value type:type atIndex:constant->index];
      continue;
    }
    char what[32];
    snprintf(what, sizeof what, "constants[%zu].name", index);
    NSString *name;
    IRON_TRY(IronTextRead(&name, constant->name, what));
    [values setConstantValue:value type:type withName:name];
  }
  return IRON_OK;
}

/* The function, specialised; autoreleased. */
static iron_status make_function(id<MTLFunction> *function, id<MTLLibrary> library, NSString *name,
                                 const iron_constant *constants, size_t count) {
  if (![[library functionNames] containsObject:name])
    return IronErrorReport(IRON_ERROR_NOT_FOUND, "name: the library has no kernel \"%s\"", [name UTF8String]);
  MTLFunctionConstantValues *values = nil;
  if (count > 0) {
    values = [[[MTLFunctionConstantValues alloc] init] autorelease];
    IRON_TRY(read_constants(values, constants, count));
  }
  iron_status status = IRON_OK;
  *function = IronFunctionMake(library, name, values, &status);
  return status;
}

static uint32_t access_of(id<MTLBinding> binding) {
  switch ([binding access]) {
    case MTLBindingAccessReadOnly: return IRON_ACCESS_READ;
    case MTLBindingAccessWriteOnly: return IRON_ACCESS_WRITE;
    default: return IRON_ACCESS_READ_WRITE;
  }
}

/* What a texture's components are taken for; 0: neither numbers with a point nor without. */
static uint32_t value_of(id<MTLTextureBinding> binding) {
  switch ([binding textureDataType]) {
    case MTLDataTypeFloat:
    case MTLDataTypeHalf: return IRON_TEXTURE_FLOAT;
    case MTLDataTypeUInt:
    case MTLDataTypeUShort: return IRON_TEXTURE_UINT;
    case MTLDataTypeInt:
    case MTLDataTypeShort: return IRON_TEXTURE_SINT;
    default: return 0;
  }
}

/* Keeps what the kernel uses. */
static iron_status read_parameters(IronKernel *kernel, MTLComputePipelineReflection *reflection, NSString *name) {
  if (!reflection) return IRON_OK;
  NSArray *bindings = [reflection bindings];
  kernel->parameters = calloc([bindings count] + 1, sizeof *kernel->parameters);
  if (!kernel->parameters) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for a kernel");
  kernel->reflected = true;
  for (id<MTLBinding> binding in bindings) {
    if (![binding isUsed]) continue;
    IronParameter parameter = {
        .index = (uint32_t)[binding index], .kind = IRON_ARGUMENT_BUFFER, .access = access_of(binding)};
    if ([binding type] == MTLBindingTypeBuffer) {
      id<MTLBufferBinding> buffer = (id<MTLBufferBinding>)binding;
      parameter.size = [buffer bufferDataSize];
      parameter.alignment = [buffer bufferAlignment];
    } else if ([binding type] == MTLBindingTypeThreadgroupMemory) {
      /* A threadgroup variable of the kernel's own has its memory already. */
      if (![binding isArgument]) continue;
      parameter.kind = IRON_ARGUMENT_THREADGROUP;
      parameter.size = [(id<MTLThreadgroupBinding>)binding threadgroupMemoryDataSize];
      parameter.alignment = [(id<MTLThreadgroupBinding>)binding threadgroupMemoryAlignment];
    } else if ([binding type] == MTLBindingTypeTexture) {
      parameter.kind = IRON_ARGUMENT_TEXTURE;
      parameter.texture_type = (uint32_t)[(id<MTLTextureBinding>)binding textureType];
      parameter.texture_value = value_of((id<MTLTextureBinding>)binding);
    } else if ([binding type] == MTLBindingTypeSampler) {
      parameter.kind = IRON_ARGUMENT_SAMPLER;
    } else {
      return IronErrorReport(IRON_ERROR_UNSUPPORTED, "kernel %s: its argument %s is of a kind that cannot be given",
                             [name UTF8String], [[binding name] UTF8String]);
    }
    if (parameter.alignment == 0) parameter.alignment = 1;
    kernel->parameters[kernel->parameter_count++] = parameter;
  }
  return IRON_OK;
}

iron_status iron_kernel_create(iron_library *library_handle, const char *name, const iron_constant *constants,
                               size_t constant_count, iron_kernel **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "kernel");
    if (!name || !*name) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "name: is %s", name ? "empty" : "NULL");
    if (!constants && constant_count > 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "constants: is NULL");
    IronLibrary *library = IronHandleAcquire(library_handle, IRON_HANDLE_LIBRARY, "library");
    if (!library) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronDeviceCheckOpen(library->device, "library"));
    NSString *text;
    IRON_TRY(IronTextRead(&text, name, "name"));
    id<MTLFunction> function;
    IRON_TRY(make_function(&function, library->metal, text, constants, constant_count));
    iron_status status = IRON_OK;
    MTLComputePipelineReflection *reflection = nil;
    id<MTLComputePipelineState> state = IronPipelineMake(library->device, function, &reflection, &status);
    if (!state) return status;
    IronKernel *kernel = [[[IronKernel alloc] init] autorelease];
    kernel->device = [library->device retain];
    kernel->state = [state retain];
    count_pipelines(kernel->device, IronMemoryAdd);
    IRON_TRY(read_parameters(kernel, reflection, text));
    return IronHandleCreate(kernel, IRON_HANDLE_KERNEL, (void **)handle);
  } IRON_LEAVE
}

iron_status iron_kernel_describe(iron_kernel *handle, iron_kernel_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronKernel *kernel = IronHandleAcquire(handle, IRON_HANDLE_KERNEL, "kernel");
    if (!kernel) return IRON_ERROR_INVALID_HANDLE;
    iron_kernel_info full = {
        .max_threads_per_threadgroup = (uint32_t)[kernel->state maxTotalThreadsPerThreadgroup],
        .simd_width = (uint32_t)[kernel->state threadExecutionWidth],
        .static_threadgroup_memory = (uint32_t)[kernel->state staticThreadgroupMemoryLength],
        .argument_count = (uint32_t)kernel->parameter_count,
    };
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_kernel_argument(iron_kernel *handle, uint32_t position, iron_kernel_argument_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronKernel *kernel = IronHandleAcquire(handle, IRON_HANDLE_KERNEL, "kernel");
    if (!kernel) return IRON_ERROR_INVALID_HANDLE;
    if (position >= kernel->parameter_count)
      return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "position: %u, the kernel has %zu arguments", position,
                             kernel->parameter_count);
    const IronParameter *parameter = &kernel->parameters[position];
    iron_kernel_argument_info full = {
        .kind = parameter->kind,
        .index = parameter->index,
        .access = parameter->access,
        .byte_size = parameter->size,
        .alignment = parameter->alignment,
        .texture_type = parameter->texture_type,
        .texture_value = parameter->texture_value,
    };
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_kernel_retain(iron_kernel *handle) {
  IRON_ENTRY {
    return IronHandleRetain(handle, IRON_HANDLE_KERNEL, "kernel");
  } IRON_LEAVE
}

iron_status iron_kernel_release(iron_kernel *handle) {
  IRON_ENTRY {
    return IronHandleRelease(handle, IRON_HANDLE_KERNEL, "kernel");
  } IRON_LEAVE
}
