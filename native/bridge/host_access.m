/* The host reads, writes and maps: it waits for the commands in flight and is refused what conflicts (see hazard.h). */
#include <string.h>

#import "buffer.h"
#import "entry.h"
#import "handle.h"
#import "structs.h"
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

static iron_status begin_access(IronBuffer *buffer, iron_access access) {
  if ((access & IRON_ACCESS_WRITE) && buffer->read_only)
    return IronErrorReport(IRON_ERROR_READ_ONLY, "buffer: it was made read_only");
  IronSubmissionsRunFor(buffer, access);
  IronMonitor *monitor = &buffer->device->monitor;
  IronMonitorLock(monitor);
  iron_status status = IronDeviceCheckOpen(buffer->device, "buffer");
  if (status == IRON_OK) status = IronHazardMap(&buffer->hazard, monitor, access);
  IronMonitorUnlock(monitor);
  return status;
}

static void end_read(IronBuffer *buffer) {
  IronMonitorLock(&buffer->device->monitor);
  IronHazardUnmap(&buffer->hazard, IRON_ACCESS_READ);
  IronMonitorUnlock(&buffer->device->monitor);
}

static void end_write(IronBuffer *buffer, bool whole) {
  IronMonitorLock(&buffer->device->monitor);
  IronHazardUnmap(&buffer->hazard, IRON_ACCESS_WRITE);
  if (whole) buffer->hazard.poison = IRON_OK;
  IronMonitorUnlock(&buffer->device->monitor);
}

iron_status iron_buffer_read(iron_buffer *handle, uint64_t offset, void *bytes, uint64_t length) {
  IRON_ENTRY {
    if (!bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "bytes: is NULL");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronBufferCheckRange(buffer, offset, length, "buffer"));
    IRON_TRY(begin_access(buffer, IRON_ACCESS_READ));
    iron_status status = IronBufferCopyOut(buffer, offset, bytes, length);
    end_read(buffer);
    return status;
  } IRON_LEAVE
}

iron_status iron_buffer_write(iron_buffer *handle, uint64_t offset, const void *bytes, uint64_t length) {
  IRON_ENTRY {
    if (!bytes) return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "bytes: is NULL");
    IronBuffer *buffer = IronBufferAcquire(handle, "buffer");
    if (!buffer) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronBufferCheckRange(buffer, offset, length, "buffer"));
    IRON_TRY(begin_access(buffer, IRON_ACCESS_WRITE));
    iron_status status = IronBufferCopyIn(buffer, offset, bytes, length);
    end_write(buffer, status == IRON_OK && length == buffer->length);
    return status;
  } IRON_LEAVE
}

static iron_status check_access(iron_access access) {
  if (access >= IRON_ACCESS_READ && access <= IRON_ACCESS_READ_WRITE) return IRON_OK;
  return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "access: %u is none", access);
}

static iron_status check_shared(IronBuffer *buffer) {
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
    IRON_TRY(begin_access(buffer, access));
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
