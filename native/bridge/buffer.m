#import "buffer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#import "entry.h"
#import "handle.h"
#import "structs.h"
#import "text.h"

@implementation IronBuffer

IRON_COUNTED(IronBuffer)

/* Nobody uses the buffer any more: a submission in flight would have kept it alive. */
- (void)dealloc {
  if (metal) {
    IronIdleBuffer *evicted = NULL;
    if (pooled) [metal setPurgeableState:MTLPurgeableStateVolatile];
    IronMonitorLock(&device->monitor);
    IronMemoryRemove(&device->memory, category, bytes);
    if (pooled) evicted = IronPoolGive(&device->pool, &device->memory, pooled);
    IronMonitorUnlock(&device->monitor);
    if (pooled)
      IronPoolDiscard(evicted);
    else
      [metal release];
  }
  free(label);
  [device release];
  [super dealloc];
}

@end

IronBuffer *IronBufferAcquire(const iron_buffer *handle, const char *argument) {
  return IronHandleAcquire(handle, IRON_HANDLE_BUFFER, argument);
}

iron_status IronBufferCheckRange(IronBuffer *buffer, uint64_t offset, uint64_t length, const char *argument) {
  if (length == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: length is 0", argument);
  if (offset > buffer->length || length > buffer->length - offset)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %llu bytes from offset %llu, the buffer has %llu", argument,
                           (unsigned long long)length, (unsigned long long)offset, (unsigned long long)buffer->length);
  return IRON_OK;
}

#pragma mark Allocation

/* A Metal buffer from the device; when it has no memory left, once more without the pool's idle buffers. */
static id<MTLBuffer> allocate(IronDevice *device, uint64_t bytes, iron_storage storage) {
  MTLResourceOptions options =
      storage == IRON_STORAGE_PRIVATE ? MTLResourceStorageModePrivate : MTLResourceStorageModeShared;
  id<MTLBuffer> metal = [device->metal newBufferWithLength:bytes options:options];
  if (metal) return metal;
  IronMonitorLock(&device->monitor);
  IronIdleBuffer *idle = IronPoolTakeAll(&device->pool, &device->memory);
  IronMonitorUnlock(&device->monitor);
  if (IronPoolDiscard(idle) == 0) return nil;
  return [device->metal newBufferWithLength:bytes options:options];
}

/* Gives `buffer` a Metal buffer of its own. */
static iron_status allocate_own(IronBuffer *buffer) {
  buffer->metal = allocate(buffer->device, buffer->bytes, buffer->storage);
  return buffer->metal ? IRON_OK : IRON_ERROR_OUT_OF_MEMORY;
}

/* Gives `buffer` one from the pool, or a new one that will go there. */
static iron_status allocate_pooled(IronBuffer *buffer) {
  IronDevice *device = buffer->device;
  IronMonitorLock(&device->monitor);
  IronIdleBuffer *idle = IronPoolTake(&device->pool, &device->memory, buffer->bytes, buffer->storage);
  *(idle ? &device->memory.pool_hits : &device->memory.pool_misses) += 1;
  if (idle) IronMemoryAdd(&device->memory, buffer->category, buffer->bytes); /* at no moment in neither category */
  IronMonitorUnlock(&device->monitor);
  if (idle) {
    [idle->metal setPurgeableState:MTLPurgeableStateNonVolatile];
  } else {
    idle = calloc(1, sizeof *idle);
    if (!idle) return IRON_ERROR_OUT_OF_MEMORY;
    idle->bytes = buffer->bytes;
    idle->storage = buffer->storage;
    idle->metal = allocate(device, buffer->bytes, buffer->storage);
    if (!idle->metal) {
      free(idle);
      return IRON_ERROR_OUT_OF_MEMORY;
    }
    IronMonitorLock(&device->monitor);
    IronMemoryAdd(&device->memory, buffer->category, buffer->bytes);
    IronMonitorUnlock(&device->monitor);
  }
  buffer->pooled = idle;
  buffer->metal = idle->metal;
  return IRON_OK;
}

static uint64_t bytes_to_allocate(IronDevice *device, uint64_t length, const iron_buffer_options *options) {
  uint64_t most = [device->metal maxBufferLength];
  uint64_t bytes = length;
  if (options->storage == IRON_STORAGE_PRIVATE) bytes = (bytes + 3) & ~UINT64_C(3); /* a blit copies whole words */
  if (options->pooled) bytes = IronPoolSizeClass(bytes);
  return bytes > most ? most : bytes;
}

static IronBuffer *buffer_with(IronDevice *device, uint64_t length, uint64_t bytes,
                               const iron_buffer_options *options) {
  IronBuffer *buffer = [[[IronBuffer alloc] init] autorelease];
  buffer->device = [device retain];
  buffer->length = length;
  buffer->bytes = bytes;
  buffer->storage = options->storage;
  buffer->category = options->category;
  buffer->read_only = options->read_only;
  return buffer;
}

IronBuffer *IronBufferMake(IronDevice *device, uint64_t length, const iron_buffer_options *options) {
  uint64_t bytes = bytes_to_allocate(device, length, options);
  IronBuffer *buffer = buffer_with(device, length, bytes, options);
  iron_status status = options->pooled ? allocate_pooled(buffer) : allocate_own(buffer);
  if (status != IRON_OK) {
    IronErrorReport(status, "no memory for a buffer of %llu bytes (%llu are allocated on the device)",
                    (unsigned long long)length, (unsigned long long)[device->metal currentAllocatedSize]);
    return nil;
  }
  if (!options->pooled) {
    IronMonitorLock(&device->monitor);
    IronMemoryAdd(&device->memory, buffer->category, bytes);
    IronMonitorUnlock(&device->monitor);
  }
  return buffer;
}

#pragma mark Options

static iron_status check_length(IronDevice *device, uint64_t length) {
  uint64_t most = [device->metal maxBufferLength];
  if (length == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "length: is 0");
  if (length > most)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "length: is %llu, one buffer of this device has at most %llu bytes",
                           (unsigned long long)length, (unsigned long long)most);
  return IRON_OK;
}

static iron_status check_options(const iron_buffer_options *options, bool wrapped) {
  if (options->storage != IRON_STORAGE_SHARED && options->storage != IRON_STORAGE_PRIVATE)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: storage %u is none", options->storage);
  if (options->category > IRON_CATEGORY_SCRATCH)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: category %u is none that a buffer can have",
                           options->category);
  if (wrapped && options->storage != IRON_STORAGE_SHARED)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: wrapped memory cannot be in private storage");
  if (wrapped && options->pooled)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: wrapped memory cannot be pooled");
  if (!wrapped && options->read_only)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: only wrapped memory can be read_only");
  return IRON_OK;
}

/* Names the buffer, for Metal's tools as well. A pooled Metal buffer keeps the name of its latest user. */
static iron_status set_label(IronBuffer *buffer, const char *label, const char *argument) {
  NSString *text;
  IRON_TRY(IronTextRead(&text, label, argument));
  char *copy = label ? strdup(label) : NULL;
  if (label && !copy) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "%s: no memory to copy it", argument);
  IronMonitorLock(&buffer->device->monitor);
  char *old = buffer->label;
  buffer->label = copy;
  IronMonitorUnlock(&buffer->device->monitor);
  free(old);
  [buffer->metal setLabel:text];
  return IRON_OK;
}

#pragma mark Entries

static iron_status create(iron_device *device_handle, const void *bytes, uint64_t length,
                          const iron_buffer_options *given, iron_buffer **handle) {
  iron_buffer_options options;
  IRON_READ_OPTIONAL_STRUCT(options, given, "options");
  IRON_TRY(check_options(&options, false));
  IronDevice *device = IronDeviceAcquire(device_handle);
  if (!device) return IRON_ERROR_INVALID_HANDLE;
  IRON_TRY(check_length(device, length));
  IronBuffer *buffer = IronBufferMake(device, length, &options);
  if (!buffer) return IRON_ERROR_OUT_OF_MEMORY;
  if (options.label) IRON_TRY(set_label(buffer, options.label, "options.label"));
  if (bytes) IRON_TRY(IronBufferCopyIn(buffer, 0, bytes, length));
  return IronHandleCreate(buffer, IRON_HANDLE_BUFFER, (void **)handle);
}

iron_status iron_buffer_create(iron_device *device, uint64_t length, const iron_buffer_options *options,
                               iron_buffer **buffer) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(buffer, "buffer");
    return create(device, NULL, length, options, buffer);
  } IRON_LEAVE
}

iron_status iron_buffer_create_with_bytes(iron_device *device, const void *bytes, uint64_t length,
                                          const iron_buffer_options *options, iron_buffer **buffer) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(buffer, "buffer");
    if (!bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "bytes: is NULL");
    return create(device, bytes, length, options, buffer);
  } IRON_LEAVE
}

/* Whom to tell that wrapped memory is free. Its two owners are the Metal buffer and the call that makes it: should
 * Metal call the deallocator although it gives no buffer, the call still finds this and the caller hears nothing. */
typedef struct Wrapped {
  iron_release_callback release;
  void *context;
  _Atomic(int) owners;
  bool handed_out; /* the memory is the buffer's now, and the caller waits to be told */
} Wrapped;

static void disown(Wrapped *wrapped) {
  if (atomic_fetch_sub(&wrapped->owners, 1) == 1) free(wrapped);
}

static void memory_is_free(Wrapped *wrapped, void *pointer, uint64_t length) {
  IRON_POOL {
    if (wrapped->handed_out && wrapped->release) wrapped->release(pointer, length, wrapped->context);
    disown(wrapped);
  }
}

/* Gives `buffer` the caller's memory. */
static iron_status adopt(IronBuffer *buffer, void *pointer, Wrapped *wrapped) {
  IronDevice *device = buffer->device;
  buffer->metal = [device->metal newBufferWithBytesNoCopy:pointer
                                                   length:buffer->length
                                                  options:MTLResourceStorageModeShared
                                              deallocator:^(void *freed, NSUInteger length) {
                                                memory_is_free(wrapped, freed, length);
                                              }];
  if (!buffer->metal)
    return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "the device cannot wrap %llu bytes",
                           (unsigned long long)buffer->length);
  IronMonitorLock(&device->monitor);
  IronMemoryAdd(&device->memory, buffer->category, buffer->bytes);
  IronMonitorUnlock(&device->monitor);
  return IRON_OK;
}

static iron_status wrap(IronBuffer *buffer, void *pointer, iron_release_callback release, void *context,
                        const char *label, iron_buffer **handle) {
  Wrapped *wrapped = malloc(sizeof *wrapped);
  if (!wrapped) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "no memory for a buffer");
  *wrapped = (Wrapped){.release = release, .context = context, .owners = 2};
  iron_status status = adopt(buffer, pointer, wrapped);
  if (status != IRON_OK) {
    free(wrapped);
    return status;
  }
  if (label) status = set_label(buffer, label, "options.label");
  if (status == IRON_OK) status = IronHandleCreate(buffer, IRON_HANDLE_BUFFER, (void **)handle);
  wrapped->handed_out = status == IRON_OK;
  disown(wrapped);
  return status;
}

iron_status iron_buffer_wrap(iron_device *device_handle, void *pointer, uint64_t length, iron_release_callback release,
                             void *context, const iron_buffer_options *given, iron_buffer **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "buffer");
    iron_buffer_options options;
    IRON_READ_OPTIONAL_STRUCT(options, given, "options");
    IRON_TRY(check_options(&options, true));
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!pointer) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "pointer: is NULL");
    if ((uintptr_t)pointer % page)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "pointer: is not a multiple of the page size, %llu",
                             (unsigned long long)page);
    if (length % page)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "length: %llu is not a multiple of the page size, %llu",
                             (unsigned long long)length, (unsigned long long)page);
    IronDevice *device = IronDeviceAcquire(device_handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(check_length(device, length));
    return wrap(buffer_with(device, length, length, &options), pointer, release, context, options.label, handle);
  } IRON_LEAVE
}

iron_status iron_buffer_retain(iron_buffer *handle) {
  IRON_ENTRY {
    return IronHandleRetain(handle, IRON_HANDLE_BUFFER, "buffer");
  } IRON_LEAVE
}

iron_status iron_buffer_release(iron_buffer *handle) {
  IRON_ENTRY {
    return IronHandleRelease(handle, IRON_HANDLE_BUFFER, "buffer");
  } IRON_LEAVE
}

iron_status iron_buffer_length(iron_buffer *handle, uint64_t *length) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(length, "length");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    *length = buffer->length;
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_buffer_label(iron_buffer *handle, char *text, size_t capacity) {
  IRON_ENTRY {
    if (!text) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "text: is NULL");
    if (capacity == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "capacity: is 0");
    *text = '\0';
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IronMonitorLock(&buffer->device->monitor);
    IronTextCopy(text, capacity, buffer->label ? buffer->label : "");
    IronMonitorUnlock(&buffer->device->monitor);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_buffer_set_label(iron_buffer *handle, const char *label) {
  IRON_ENTRY {
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    return set_label(buffer, label, "label");
  } IRON_LEAVE
}
