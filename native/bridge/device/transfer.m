#import "transfer.h"

#include <string.h>

#import "base/entry.h"

/* The staging buffer's size: large enough that the copy and not the command buffer round it takes the time. A GPU
 * behind a bus has short shared buffers where neither side waits for the other's. */
static uint64_t staging_bytes(IronDevice *device) { return UINT64_C(1) << (device->cores > 0 ? 21 : 23); }

/* A blit copies whole words. */
static uint64_t word_down(uint64_t offset) { return offset & ~UINT64_C(3); }
static uint64_t word_up(uint64_t offset) { return (offset + 3) & ~UINT64_C(3); }

/* Copies on the device and waits. The device's one transfer: `device->transfer` is held. */
static iron_status blit(IronDevice *device, id<MTLBuffer> source, uint64_t source_offset, id<MTLBuffer> destination,
                        uint64_t destination_offset, uint64_t length) {
  IRON_POOL {
    id<MTLCommandBuffer> commands = [device->queue commandBuffer];
    id<MTLBlitCommandEncoder> encoder = [commands blitCommandEncoder];
    if (!encoder) return IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "the device gave no command buffer");
    [encoder copyFromBuffer:source
               sourceOffset:source_offset
                   toBuffer:destination
          destinationOffset:destination_offset
                       size:length];
    [encoder endEncoding];
    [commands commit];
    [commands waitUntilCompleted];
    if ([commands status] == MTLCommandBufferStatusCompleted) return IRON_OK;
    IronFailure failure = IronFailureFromError([commands error]);
    return IronErrorReport(failure.status, "copying to or from private memory failed: %s", failure.text);
  }
}

static IronBuffer *make_staging(IronDevice *device, uint64_t length) {
  iron_buffer_options options = {.category = IRON_CATEGORY_SCRATCH, .label = "staging", .pooled = true};
  uint64_t words = word_up(length) + 4; /* a range may start and end inside a word */
  return IronBufferMake(device, words < staging_bytes(device) ? words : staging_bytes(device),
                        &options);
}

static iron_status copy_out(IronBuffer *buffer, IronBuffer *staging, uint64_t offset, char *bytes, uint64_t length) {
  while (length > 0) {
    uint64_t start = word_down(offset), skip = offset - start;
    uint64_t part = length < staging->length - 4 ? length : staging->length - 4;
    IRON_TRY(blit(buffer->device, buffer->metal, start, staging->metal, 0, word_up(skip + part)));
    memcpy(bytes, (const char *)[staging->metal contents] + skip, part);
    offset += part;
    bytes += part;
    length -= part;
  }
  return IRON_OK;
}

static iron_status copy_in(IronBuffer *buffer, IronBuffer *staging, uint64_t offset, const char *bytes,
                           uint64_t length) {
  while (length > 0) {
    uint64_t start = word_down(offset), skip = offset - start;
    uint64_t part = length < staging->length - 4 ? length : staging->length - 4;
    uint64_t words = word_up(skip + part);
    /* The rest of the first and last word must stay what it is. */
    if (skip + part != words || skip > 0)
      IRON_TRY(blit(buffer->device, buffer->metal, start, staging->metal, 0, words));
    memcpy((char *)[staging->metal contents] + skip, bytes, part);
    IRON_TRY(blit(buffer->device, staging->metal, 0, buffer->metal, start, words));
    offset += part;
    bytes += part;
    length -= part;
  }
  return IRON_OK;
}

static void leave_gate(pthread_mutex_t **gate) { IronGateLeave(*gate); }

/* The device's one transfer, to the end of the block. */
#define TRANSFER(device)                                                       \
  __attribute__((cleanup(leave_gate))) pthread_mutex_t *gate = &device->transfer; \
  IronGateEnter(gate)

static iron_status copy_out_alone(IronBuffer *buffer, IronBuffer *staging, uint64_t offset, char *bytes,
                                  uint64_t length) {
  TRANSFER(buffer->device);
  return copy_out(buffer, staging, offset, bytes, length);
}

static iron_status copy_in_alone(IronBuffer *buffer, IronBuffer *staging, uint64_t offset, const char *bytes,
                                 uint64_t length) {
  TRANSFER(buffer->device);
  return copy_in(buffer, staging, offset, bytes, length);
}

iron_status IronTransferOut(IronBuffer *buffer, uint64_t offset, void *bytes, uint64_t length) {
  IronBuffer *staging = make_staging(buffer->device, length);
  if (!staging) return IRON_ERROR_OUT_OF_MEMORY;
  return copy_out_alone(buffer, staging, offset, bytes, length);
}

iron_status IronTransferIn(IronBuffer *buffer, uint64_t offset, const void *bytes, uint64_t length) {
  IronBuffer *staging = make_staging(buffer->device, length);
  if (!staging) return IRON_ERROR_OUT_OF_MEMORY;
  iron_status status;
  @try {
    status = copy_in_alone(buffer, staging, offset, bytes, length);
  } @catch (id raised) {
    status = IronErrorCaught(raised);
  }
  if (status != IRON_OK) { /* a part may be written */
    IronMonitorLock(&buffer->device->monitor);
    buffer->hazard.poison = status;
    IronMonitorUnlock(&buffer->device->monitor);
  }
  return status;
}
