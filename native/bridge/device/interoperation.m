/* Metal objects of the caller's, wrapped and handed out. */
#import <Metal/Metal.h>

#import "base/entry.h"
#import "base/handle.h"
#import "base/structs.h"
#import "buffer.h"
#import "device.h"
#import "device_list.h"

/* By the GPU's number: a debugging layer may put objects of its own before Metal's. */
static bool is_of(id<MTLDevice> one, id<MTLDevice> other) { return [one registryID] == [other registryID]; }

/* The object behind a pointer of the caller's, when it answers to a method that only objects of its kind have. GCC's
 * runtime does not know the protocols of clang's classes. */
static iron_status read_object(id *object, void *pointer, SEL only, const char *kind, const char *argument) {
  if (!pointer) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is NULL", argument);
  *object = (id)pointer;
  if ([*object respondsToSelector:only]) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: is a %s and no %s", argument,
                         [NSStringFromClass([*object class]) UTF8String], kind);
}

iron_status iron_device_wrap_metal(void *metal_device, void *metal_queue, const iron_device_options *given,
                                   iron_device **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "device");
    iron_device_options options;
    IRON_READ_OPTIONAL_STRUCT(options, given, "options");
    IRON_TRY(IronDeviceCompleteOptions(&options));
    id<MTLDevice> metal;
    id<MTLCommandQueue> queue = nil;
    IRON_TRY(read_object(&metal, metal_device, @selector(newCommandQueueWithMaxCommandBufferCount:), "MTLDevice",
                         "metal_device"));
    if (metal_queue) {
      IRON_TRY(read_object(&queue, metal_queue, @selector(commandBufferWithUnretainedReferences), "MTLCommandQueue",
                           "metal_queue"));
      if (!is_of([queue device], metal))
        return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "metal_queue: a queue of another device");
    }
    return IronDeviceOpenMetal(metal, queue, &options, handle);
  } IRON_LEAVE
}

iron_status iron_device_metal(iron_device *handle, void **metal_device, void **metal_queue) {
  IRON_ENTRY {
    if (metal_device) *metal_device = NULL;
    if (metal_queue) *metal_queue = NULL;
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    if (metal_device) *metal_device = (void *)device->metal;
    if (metal_queue) *metal_queue = (void *)device->queue;
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_buffer_wrap_metal(iron_device *device_handle, void *metal_buffer, const iron_buffer_options *given,
                                   iron_buffer **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "buffer");
    iron_buffer_options options;
    IRON_READ_OPTIONAL_STRUCT(options, given, "options");
    IronDevice *device = IronDeviceAcquire(device_handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IRON_VISIT(device, "device");
    id<MTLBuffer> metal;
    IRON_TRY(read_object(&metal, metal_buffer, @selector(contents), "MTLBuffer", "metal_buffer"));
    if (!is_of([metal device], device->metal))
      return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "metal_buffer: a buffer of another device");
    return IronBufferWrapMetal(device, metal, &options, handle);
  } IRON_LEAVE
}

iron_status iron_buffer_metal(iron_buffer *handle, void **metal_buffer) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(metal_buffer, "metal_buffer");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronWeightsRefuse(buffer, "buffer"));
    *metal_buffer = (void *)buffer->metal;
    return IRON_OK;
  } IRON_LEAVE
}
