/* Operations on bytes, which need no kernel: Metal's blit encoder does them. */
#import "device/commands.h"
#import "base/entry.h"
#import "device/trace.h"

#include <stdio.h>

/* A buffer of the commands' device with a range of whole words. */
static iron_status resolve(IronBuffer **buffer, IronCommands *commands, iron_buffer *handle, const char *argument,
                           uint64_t offset, uint64_t length) {
  *buffer = IronBufferAcquire(handle, argument);
  if (!*buffer) return IRON_ERROR_INVALID_HANDLE;
  if ((*buffer)->device != commands->device)
    return IronErrorReport(IRON_ERROR_WRONG_DEVICE, "%s: a buffer of another device", argument);
  IRON_TRY(IronWeightsRefuse(*buffer, argument));
  if (offset % 4 || length % 4)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "%s: offset %llu and length %llu must be multiples of 4",
                           argument, (unsigned long long)offset, (unsigned long long)length);
  return IronBufferCheckRange(*buffer, offset, length, argument);
}

static iron_status check_writable(IronBuffer *buffer, const char *argument) {
  if (!buffer->read_only) return IRON_OK;
  return IronErrorReport(IRON_ERROR_READ_ONLY, "%s: the buffer was made read_only", argument);
}

static void trace(IronCommands *commands, IronLocation location, uint64_t length) {
  char shape[40];
  snprintf(shape, sizeof shape, "bytes=%llu", (unsigned long long)length);
  IronTraceOperation(commands->device, location, shape);
}

iron_status iron_encode_copy_bytes(iron_commands *handle, iron_buffer *source_handle, uint64_t source_offset,
                                   iron_buffer *destination_handle, uint64_t destination_offset, uint64_t length) {
  IRON_ENTRY {
    IronLocation location = IronLocationTake();
    IRON_RECORD(commands, handle);
    IronBuffer *source, *destination;
    IRON_TRY(resolve(&source, commands, source_handle, "source", source_offset, length));
    IRON_TRY(resolve(&destination, commands, destination_handle, "destination", destination_offset, length));
    IRON_TRY(check_writable(destination, "destination"));
    if (source == destination && source_offset < destination_offset + length &&
        destination_offset < source_offset + length)
      return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "destination: overlaps source");
    const IronUse uses[] = {{"source", source, IRON_ACCESS_READ, false},
                            {"destination", destination, IRON_ACCESS_WRITE, length == destination->length}};
    id<MTLBlitCommandEncoder> encoder;
    IRON_TRY([commands prepare:uses count:2 blit:&encoder]);
    [encoder copyFromBuffer:source->metal
               sourceOffset:source_offset
                   toBuffer:destination->metal
          destinationOffset:destination_offset
                       size:length];
    [commands recorded:2 * length];
    if (IronTraceIsOn()) trace(commands, location, length);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_encode_fill(iron_commands *handle, iron_buffer *buffer_handle, uint64_t offset, uint64_t length,
                             uint8_t value) {
  IRON_ENTRY {
    IronLocation location = IronLocationTake();
    IRON_RECORD(commands, handle);
    IronBuffer *buffer;
    IRON_TRY(resolve(&buffer, commands, buffer_handle, "buffer", offset, length));
    IRON_TRY(check_writable(buffer, "buffer"));
    const IronUse use = {"buffer", buffer, IRON_ACCESS_WRITE, length == buffer->length};
    id<MTLBlitCommandEncoder> encoder;
    IRON_TRY([commands prepare:&use count:1 blit:&encoder]);
    [encoder fillBuffer:buffer->metal range:NSMakeRange(offset, length) value:value];
    [commands recorded:length];
    if (IronTraceIsOn()) trace(commands, location, length);
    return IRON_OK;
  } IRON_LEAVE
}
