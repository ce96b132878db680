#import "buffer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#import "debug_memory.h"
#import "base/entry.h"
#import "base/handle.h"
#include "held_locks.h"
#import "ledger.h"
#import "reaper.h"
#import "residency.h"
#import "base/structs.h"
#import "submission.h"
#import "base/text.h"

@implementation IronBuffer

IRON_COUNTED(IronBuffer)

/* Nobody uses the buffer any more: a submission in flight would have kept it alive. What goes to the pool is anybody's
 * from then on: another thread may take it, or give it back to the system, at once. */
- (void)dealloc {
  held_locks_expect_none("a buffer is destroyed");
  if (metal && !IronDeviceIsInherited(device)) {
    IronResidencyLeave(self);
    IronMemoryChange change = IronDebugMemoryBefore(device->metal);
    uint64_t references = change.metal ? [metal retainCount] : 0;
    IronIdleBuffer *idle = pooled, *evicted = NULL;
    if ([self leaveAccountsForPool:&evicted]) {
      soft_schedule_point();
      IronDebugMemoryAfter(&change, "idle", length, bytes, label, references);
    } else {
      [metal release];
      free(idle);
      IronDebugMemoryAfter(&change, "release", length, bytes, label, references - 1);
    }
    IronPoolDiscard(evicted, device->metal, "evict");
  }
  if (weights) free(weights->matrices);
  free(weights);
  free(label);
  [device release];
  [super dealloc];
}

/* Into the memory figures and the ledger, at the same moment out of the pool or of what was reserved. Monitor held. */
- (void)enterAccounts {
  born = IronNow();
  counted = true;
  if (wrapped) device->memory.wrapped_bytes += bytes;
  IronMemoryAdd(&device->memory, category, bytes);
  IronLedgerAdd(self);
}

/* Out of the memory figures and the ledger, and into the pool: then it returns true, `metal` and `pooled` belong to the
 * pool, and `evicted` is what the pool has no room for. */
- (bool)leaveAccountsForPool:(IronIdleBuffer **)evicted {
  uint64_t look = UINT64_MAX;
  IronDeviceLockPool(device);
  bool keep = pooled && counted && !emptied && !atomic_load(&device->closed);
  if (counted) {
    if (wrapped) device->memory.wrapped_bytes -= bytes;
    IronMemoryRemove(&device->memory, category, bytes);
    IronLedgerRemove(self);
  }
  if (keep) {
    *evicted = IronPoolGive(&device->pool, &device->memory, pooled, IronNow());
    look = IronPoolNextLook(&device->pool);
  } else if (counted) {
    device->memory.rounding_bytes -= rounding;
    if (emptied) device->memory.empty_bytes -= bytes + rounding;
  }
  IronMonitorUnlock(&device->monitor);
  if (keep) IronReaperExpect(look);
  return keep;
}

@end

IronBuffer *IronBufferAcquire(const iron_buffer *handle, const char *argument) {
  IronBuffer *buffer = IronHandleAcquire(handle, IRON_HANDLE_BUFFER, argument);
  return buffer && IronDeviceCheckOpen(buffer->device, argument) == IRON_OK ? buffer : nil;
}

iron_status IronBufferCheckRange(IronBuffer *buffer, uint64_t offset, uint64_t length, const char *argument) {
  if (length == 0) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: length is 0", argument);
  if (offset > buffer->length || length > buffer->length - offset)
    return IronErrorReport(IRON_ERROR_OUT_OF_RANGE, "%s: %llu bytes from offset %llu, the buffer has %llu", argument,
                           (unsigned long long)length, (unsigned long long)offset, (unsigned long long)buffer->length);
  return IRON_OK;
}

#pragma mark Allocation

/* Sets `bytes` aside, and gives back as much idle memory as the limit and the working set have no room for; false when
 * they would not fit beside what is in use. */
static bool reserve(IronDevice *device, uint64_t bytes) {
  IronMemory *memory = &device->memory;
  IronIdleBuffer *idle = NULL;
  IronDeviceLockPool(device);
  uint64_t limited = IronMemoryLimited(memory), all = limited + memory->wrapped_bytes;
  bool fits = bytes <= memory->limit && limited <= memory->limit - bytes;
  if (fits) {
    uint64_t left = memory->limit - limited - bytes;
    uint64_t beyond_limit = device->pool.bytes > left ? device->pool.bytes - left : 0;
    uint64_t wanted = all + bytes + device->pool.bytes;
    uint64_t beyond_set = wanted > memory->working_set ? wanted - memory->working_set : 0;
    idle = IronPoolTakeOldest(&device->pool, memory, beyond_limit > beyond_set ? beyond_limit : beyond_set);
    memory->reserved_bytes += bytes;
  }
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  IronPoolDiscard(idle, device->metal, "purge");
  return fits;
}

static void cancel_reservation(IronDevice *device, uint64_t bytes) {
  IronMonitorLock(&device->monitor);
  device->memory.reserved_bytes -= bytes;
  IronMonitorUnlock(&device->monitor);
}

/* A Metal buffer (+1), whose bytes stay reserved; nil when there is no memory. */
static id<MTLBuffer> try_to_allocate(IronBuffer *buffer) {
  IronDevice *device = buffer->device;
  const uint64_t bytes = buffer->bytes;
  MTLResourceOptions options =
      buffer->storage == IRON_STORAGE_PRIVATE ? MTLResourceStorageModePrivate : MTLResourceStorageModeShared;
  if (!reserve(device, bytes)) return nil;
  id<MTLBuffer> metal = nil;
  @try {
    if (buffer->weights && device->extras->new_weights)
      metal = device->extras->new_weights(device->metal, bytes);
    else
      metal = [device->metal newBufferWithLength:bytes options:options];
  } @finally {
    if (!metal) cancel_reservation(device, bytes);
  }
  return metal;
}

/* Gives idle memory back and waits for work in flight, which may be all that keeps buffers; false when there was
 * neither. */
static bool make_room(IronDevice *device) {
  const uint64_t patience = UINT64_C(5000000000);
  IronMonitorLock(&device->monitor);
  bool worked = device->in_flight > 0;
  IronMonitorUnlock(&device->monitor);
  if (worked && IronSubmissionsCheckWait() == IRON_OK) IronDeviceSettle(device, patience);
  IronDeviceLockPool(device);
  IronIdleBuffer *idle = IronPoolTakeOldest(&device->pool, &device->memory, UINT64_MAX);
  IronMonitorUnlock(&device->monitor);
  return IronPoolDiscard(idle, device->metal, "purge").buffers > 0 || worked;
}

/* As try_to_allocate, and once more when room could be made. */
static id<MTLBuffer> allocate(IronBuffer *buffer) {
  id<MTLBuffer> metal = try_to_allocate(buffer);
  if (metal || !make_room(buffer->device)) return metal;
  return try_to_allocate(buffer);
}

static uint64_t rounding_of(id<MTLBuffer> metal, uint64_t bytes) {
  uint64_t allocated = [metal allocatedSize];
  return allocated > bytes ? allocated - bytes : 0;
}

/* Gives `buffer` a new Metal buffer. */
static iron_status allocate_new(IronBuffer *buffer, const char *label) {
  IronDevice *device = buffer->device;
  IronMemoryChange change = IronDebugMemoryBefore(device->metal);
  buffer->metal = allocate(buffer);
  if (!buffer->metal) return IRON_ERROR_OUT_OF_MEMORY;
  if (device->extras->expect_reads && buffer->category == IRON_CATEGORY_WEIGHTS)
    device->extras->expect_reads(buffer->metal);
  buffer->rounding = rounding_of(buffer->metal, buffer->bytes);
  IronMonitorLock(&device->monitor);
  device->memory.reserved_bytes -= buffer->bytes;
  device->memory.rounding_bytes += buffer->rounding;
  [buffer enterAccounts];
  IronMonitorUnlock(&device->monitor);
  IronResidencyJoin(buffer);
  IronDebugMemoryAfter(&change, "allocate", buffer->length, buffer->bytes, label, 1);
  return IRON_OK;
}

/* Gives `buffer` an idle one from the pool; false when there is none that fits. */
static bool allocate_idle(IronBuffer *buffer, const char *label) {
  IronDevice *device = buffer->device;
  IronMemoryChange change = IronDebugMemoryBefore(device->metal);
  IronDeviceLockPool(device);
  IronIdleBuffer *idle = IronPoolTake(&device->pool, &device->memory, buffer->bytes, buffer->storage);
  *(idle ? &device->memory.counters.hits : &device->memory.counters.misses) += 1;
  if (idle) {
    buffer->pooled = idle;
    buffer->metal = idle->metal;
    buffer->rounding = idle->rounding;
    [buffer enterAccounts];
  }
  IronMonitorUnlock(&device->monitor);
  if (!idle) return false;
  soft_schedule_point();
  if (idle->resting) [idle->metal setPurgeableState:MTLPurgeableStateNonVolatile];
  idle->resting = idle->empty = false;
  IronResidencyJoin(buffer);
  IronDebugMemoryAfter(&change, "reuse", buffer->length, buffer->bytes, label, [idle->metal retainCount]);
  return true;
}

/* Gives `buffer` one from the pool, or a new one that will go there. */
static iron_status allocate_pooled(IronBuffer *buffer, const char *label) {
  if (allocate_idle(buffer, label)) return IRON_OK;
  IronIdleBuffer *idle = calloc(1, sizeof *idle);
  if (!idle) return IRON_ERROR_OUT_OF_MEMORY;
  buffer->pooled = idle; /* before the ledger shows the buffer to other threads */
  iron_status status = allocate_new(buffer, label);
  if (status != IRON_OK) {
    buffer->pooled = NULL;
    free(idle);
    return status;
  }
  idle->bytes = buffer->bytes;
  idle->rounding = buffer->rounding;
  idle->storage = buffer->storage;
  idle->metal = buffer->metal;
  return IRON_OK;
}

/* Whether the request goes through the pool. */
static bool is_pooled(IronDevice *device, uint64_t length, const iron_buffer_options *options) {
  if (!options->pooled) return false;
  IronMonitorLock(&device->monitor);
  bool served = IronPoolServes(&device->pool, length, options->category);
  if (!served) device->memory.counters.bypasses += 1;
  IronMonitorUnlock(&device->monitor);
  return served;
}

/* Where the memory is. Weights lie where the device reads them best; nobody else reaches them. */
static iron_storage storage_of(IronDevice *device, const iron_buffer_options *options) {
  if (options->usage != IRON_USAGE_WEIGHTS) return options->storage;
  return device->extras->new_weights || ![device->metal hasUnifiedMemory] ? IRON_STORAGE_PRIVATE : IRON_STORAGE_SHARED;
}

static uint64_t bytes_to_allocate(IronDevice *device, uint64_t length, const iron_buffer_options *options,
                                  bool pooled) {
  uint64_t most = [device->metal maxBufferLength];
  uint64_t bytes = length;
  /* a blit copies whole words */
  if (storage_of(device, options) == IRON_STORAGE_PRIVATE) bytes = (bytes + 3) & ~UINT64_C(3);
  if (pooled) bytes = IronPoolSizeClass(bytes);
  return bytes > most ? most : bytes;
}

static IronBuffer *buffer_with(IronDevice *device, uint64_t length, uint64_t bytes,
                               const iron_buffer_options *options) {
  IronBuffer *buffer = [[[IronBuffer alloc] init] autorelease];
  buffer->device = [device retain];
  buffer->length = length;
  buffer->bytes = bytes;
  buffer->storage = storage_of(device, options);
  buffer->category = options->category;
  buffer->read_only = options->read_only;
  buffer->location = IronLocationTake();
  return buffer;
}

IronBuffer *IronBufferMake(IronDevice *device, uint64_t length, const iron_buffer_options *options) {
  bool pooled = is_pooled(device, length, options);
  IronBuffer *buffer = buffer_with(device, length, bytes_to_allocate(device, length, options, pooled), options);
  if (options->usage == IRON_USAGE_WEIGHTS) buffer->weights = calloc(1, sizeof *buffer->weights);
  iron_status status = IRON_ERROR_OUT_OF_MEMORY;
  if (options->usage != IRON_USAGE_WEIGHTS || buffer->weights)
    status = pooled ? allocate_pooled(buffer, options->label) : allocate_new(buffer, options->label);
  if (status == IRON_OK) return buffer;
  IronErrorReport(status, "no memory for a buffer of %llu bytes (%llu are allocated on the device)",
                  (unsigned long long)length, (unsigned long long)[device->metal currentAllocatedSize]);
  return nil;
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

typedef enum Origin { MADE_EMPTY, MADE_WITH_BYTES, WRAPPED } Origin;

static iron_status check_usage(const iron_buffer_options *options, Origin origin) {
  if (options->usage == IRON_USAGE_ANY) return IRON_OK;
  if (options->usage != IRON_USAGE_WEIGHTS)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: usage %u is none", options->usage);
  if (options->pooled) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: weights cannot be pooled");
  if (origin == MADE_EMPTY) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, origin == WRAPPED
                             ? "options: wrapped memory cannot be used for weights"
                             : "options: a buffer of weights is made empty, its matrices are written by rows");
}

static iron_status check_options(const iron_buffer_options *options, Origin origin) {
  const bool wrapped = origin == WRAPPED;
  if (options->storage != IRON_STORAGE_SHARED && options->storage != IRON_STORAGE_PRIVATE)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: storage %u is none", options->storage);
  if (options->category > IRON_CATEGORY_SCRATCH)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: category %u is none that a buffer can have",
                           options->category);
  IRON_TRY(IronTruthCheck("options.pooled", options->pooled));
  IRON_TRY(IronTruthCheck("options.read_only", options->read_only));
  IRON_TRY(check_usage(options, origin));
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

static iron_status make_handle(IronBuffer *buffer, iron_buffer **handle) {
  soft_schedule_point();
  IRON_TRY(IronDeviceCheckOpen(buffer->device, "device"));
  IRON_TRY(IronHandleCreate(buffer, IRON_HANDLE_BUFFER, (void **)handle));
  atomic_store(&buffer->ticket, (uintptr_t)*handle);
  return IRON_OK;
}

/* Why IronBufferMake made none; a lack of memory is reported already. */
static iron_status refused(IronDevice *device) {
  char *text = NULL;
  if (!device->extras->is_lost || !device->extras->is_lost(device->metal, &text)) return IRON_ERROR_OUT_OF_MEMORY;
  iron_status status = IronErrorReport(IRON_ERROR_DEVICE_LOST, "%s", text ? text : "the device is lost");
  free(text);
  return status;
}

static iron_status create(iron_device *device_handle, const void *bytes, uint64_t length,
                          const iron_buffer_options *given, iron_buffer **handle) {
  iron_buffer_options options;
  IRON_READ_OPTIONAL_STRUCT(options, given, "options");
  IRON_TRY(check_options(&options, bytes ? MADE_WITH_BYTES : MADE_EMPTY));
  IronDevice *device = IronDeviceAcquire(device_handle);
  if (!device) return IRON_ERROR_INVALID_HANDLE;
  IRON_VISIT(device, "device");
  IRON_TRY(check_length(device, length));
  IronBuffer *buffer = IronBufferMake(device, length, &options);
  if (!buffer) return refused(device);
  if (options.label) IRON_TRY(set_label(buffer, options.label, "options.label"));
  if (bytes) IRON_TRY(IronBufferCopyIn(buffer, 0, bytes, length));
  return make_handle(buffer, handle);
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
  IronMemoryChange change = IronDebugMemoryBefore(device->metal);
  buffer->metal = [device->metal newBufferWithBytesNoCopy:pointer
                                                   length:buffer->length
                                                  options:MTLResourceStorageModeShared
                                              deallocator:^(void *freed, NSUInteger length) {
                                                memory_is_free(wrapped, freed, length);
                                              }];
  if (!buffer->metal)
    return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "the device cannot wrap %llu bytes",
                           (unsigned long long)buffer->length);
  buffer->wrapped = true;
  buffer->rounding = rounding_of(buffer->metal, buffer->bytes);
  IronMonitorLock(&device->monitor);
  device->memory.rounding_bytes += buffer->rounding;
  [buffer enterAccounts];
  IronMonitorUnlock(&device->monitor);
  IronResidencyJoin(buffer);
  IronDebugMemoryAfter(&change, "wrap", buffer->length, buffer->bytes, NULL, 1);
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
  if (status == IRON_OK) status = make_handle(buffer, handle);
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
    IRON_TRY(check_options(&options, WRAPPED));
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
    IRON_VISIT(device, "device");
    IRON_TRY(check_length(device, length));
    return wrap(buffer_with(device, length, length, &options), pointer, release, context, options.label, handle);
  } IRON_LEAVE
}

iron_status IronBufferWrapMetal(IronDevice *device, id<MTLBuffer> metal, const iron_buffer_options *given,
                                iron_buffer **handle) {
  iron_buffer_options options = *given;
  MTLStorageMode mode = [metal storageMode];
  if (mode != MTLStorageModeShared && mode != MTLStorageModePrivate)
    return IronErrorReport(IRON_ERROR_UNSUPPORTED, "metal_buffer: its storage is neither shared nor private");
  options.storage = IRON_STORAGE_SHARED; /* what check_options wants of wrapped memory */
  IRON_TRY(check_options(&options, WRAPPED));
  options.storage = mode == MTLStorageModePrivate ? IRON_STORAGE_PRIVATE : IRON_STORAGE_SHARED;
  uint64_t length = [metal length];
  IronBuffer *buffer = buffer_with(device, length, length, &options);
  buffer->metal = [metal retain];
  buffer->wrapped = true;
  buffer->rounding = rounding_of(metal, length);
  IronMonitorLock(&device->monitor);
  device->memory.rounding_bytes += buffer->rounding;
  [buffer enterAccounts];
  IronMonitorUnlock(&device->monitor);
  IronResidencyJoin(buffer);
  if (options.label) IRON_TRY(set_label(buffer, options.label, "options.label"));
  return make_handle(buffer, handle);
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
