/* The host reads, writes and maps: it waits for the commands in flight and is refused what conflicts (see hazard.h). */
#include <string.h>

#import "buffer.h"
#import "base/entry.h"
#import "base/handle.h"
#import "base/structs.h"
#import "submission.h"
#import "transfer.h"

iron_status IronBufferCopyOut(IronBuffer *buffer, uint64_t offset, void *bytes, uint64_t length) {
  if (buffer->storage == IRON_STORAGE_PRIVATE) return IronTransferOut(buffer, offset, bytes, length);
  memcpy(bytes, (const char *)[buffer->metal contents] + offset, length);
  return IRON_OK;
}

iron_status IronBufferCopyIn(IronBuffer *buffer, uint64_t offset, const void *bytes, uint64_t length) {
  if (buffer->storage == IRON_STORAGE_PRIVATE) return IronTransferIn(buffer, offset, bytes, length);
  memcpy((char *)[buffer->metal contents] + offset, bytes, length);
  return IRON_OK;
}

/* Maps the buffer, after waiting for what is in flight, for the visit or, where that is NULL, until IronHazardUnmap. */
static iron_status begin_access(IronBuffer *buffer, iron_access access, IronVisit *visit) {
  IRON_TRY(IronWeightsRefuse(buffer, "buffer"));
  if ((access & IRON_ACCESS_WRITE) && buffer->read_only)
    return IronErrorReport(IRON_ERROR_READ_ONLY, "buffer: it was made read_only");
  IRON_TRY(IronSubmissionsCheckWait());
  IronDevice *device = buffer->device;
  IronSubmissionsRunFor(buffer, access);
  IronMonitorLock(&device->monitor);
  iron_status status = IronDeviceCheckOpen(device, "buffer");
  if (status == IRON_OK) status = IronHazardMap(&buffer->hazard, &device->monitor, access);
  if (status == IRON_OK) { /* the device may have been closed during the wait */
    status = IronDeviceCheckOpen(device, "buffer");
    if (status != IRON_OK) IronHazardUnmap(&buffer->hazard, access);
  }
  if (status == IRON_OK && visit) IronVisitEnlist(visit, device);
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  return status;
}

/* The host's copy that a buffer is mapped for. It ends with the function, on every way out of it. */
typedef struct HostCopy {
  IronVisit visit;
  IronBuffer *buffer; /* nil: not begun */
  iron_access access;
  bool whole; /* every byte was written */
} HostCopy;

static void end_copy(HostCopy *copy) {
  IronBuffer *buffer = copy->buffer;
  if (!buffer) return;
  soft_schedule_point();
  IronMonitorLock(&buffer->device->monitor);
  IronHazardUnmap(&buffer->hazard, copy->access);
  if (copy->whole) buffer->hazard.poison = IRON_OK;
  IronVisitDelist(&copy->visit);
  IronMonitorUnlock(&buffer->device->monitor);
}

static iron_status begin_copy(HostCopy *copy, IronBuffer *buffer, iron_access access) {
  IRON_TRY(begin_access(buffer, access, &copy->visit));
  copy->buffer = buffer;
  copy->access = access;
  return IRON_OK;
}

#define HOST_COPY(copy) __attribute__((cleanup(end_copy))) HostCopy copy = {}

iron_status iron_buffer_read(iron_buffer *handle, uint64_t offset, void *bytes, uint64_t length) {
  IRON_ENTRY {
    if (!bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "bytes: is NULL");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronBufferCheckRange(buffer, offset, length, "buffer"));
    HOST_COPY(copy);
    IRON_TRY(begin_copy(&copy, buffer, IRON_ACCESS_READ));
    return IronBufferCopyOut(buffer, offset, bytes, length);
  } IRON_LEAVE
}

iron_status iron_buffer_write(iron_buffer *handle, uint64_t offset, const void *bytes, uint64_t length) {
  IRON_ENTRY {
    if (!bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "bytes: is NULL");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronBufferCheckRange(buffer, offset, length, "buffer"));
    HOST_COPY(copy);
    IRON_TRY(begin_copy(&copy, buffer, IRON_ACCESS_WRITE));
    iron_status status = IronBufferCopyIn(buffer, offset, bytes, length);
    copy.whole = status == IRON_OK && length == buffer->length;
    return status;
  } IRON_LEAVE
}

static iron_status check_access(iron_access access) {
  if (access >= IRON_ACCESS_READ && access <= IRON_ACCESS_READ_WRITE) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "access: %u is none", access);
}

static iron_status check_shared(IronBuffer *buffer) {
  IRON_TRY(IronWeightsRefuse(buffer, "buffer"));
  if (buffer->storage == IRON_STORAGE_SHARED) return IRON_OK;
  return IronErrorReport(IRON_ERROR_UNSUPPORTED, "buffer: it is private to the device, the host cannot see its memory");
}

iron_status iron_buffer_map(iron_buffer *handle, iron_access access, void **pointer) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(pointer, "pointer");
    IRON_TRY(check_access(access));
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(check_shared(buffer));
    IRON_TRY(begin_access(buffer, access, NULL));
    IronMonitorLock(&buffer->device->monitor);
    if (access & IRON_ACCESS_WRITE)
      buffer->hazard.lent_to_write = access;
    else
      buffer->hazard.lent_to_read += 1;
    IronMonitorUnlock(&buffer->device->monitor);
    *pointer = [buffer->metal contents];
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_buffer_unmap(iron_buffer *handle, iron_access access) {
  IRON_ENTRY {
    IRON_TRY(check_access(access));
    /* Not IronBufferAcquire: a map outlives the close of its device. */
    IronBuffer *buffer = IronHandleAcquire(handle, IRON_HANDLE_BUFFER, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    if (IronDeviceIsInherited(buffer->device)) return IronDeviceCheckOpen(buffer->device, "buffer");
    IronHazard *hazard = &buffer->hazard;
    IronMonitorLock(&buffer->device->monitor);
    bool lent = access & IRON_ACCESS_WRITE ? hazard->lent_to_write == access : hazard->lent_to_read > 0;
    if (lent) {
      if (access & IRON_ACCESS_WRITE)
        hazard->lent_to_write = 0;
      else
        hazard->lent_to_read -= 1;
      IronHazardUnmap(hazard, access);
    }
    IronMonitorUnlock(&buffer->device->monitor);
    if (!lent) return IronErrorReport(IRON_ERROR_STATE, "buffer: it is not mapped with this access");
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_buffer_contents(iron_buffer *handle, void **pointer) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(pointer, "pointer");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(check_shared(buffer));
    *pointer = [buffer->metal contents];
    return IRON_OK;
  } IRON_LEAVE
}
