#import "failure.h"

#import <Metal/Metal.h>
#include <string.h>

#import "error.h"
#import "text.h"

static iron_status status_of(NSError *error) {
  if (![[error domain] isEqual:MTLCommandBufferErrorDomain]) return IRON_ERROR_DEVICE_INTERNAL;
  switch ((MTLCommandBufferError)[error code]) {
    case MTLCommandBufferErrorTimeout: return IRON_ERROR_DEVICE_TIMEOUT;
    case MTLCommandBufferErrorPageFault: return IRON_ERROR_DEVICE_PAGE_FAULT;
    case MTLCommandBufferErrorAccessRevoked:
    case MTLCommandBufferErrorDeviceRemoved: return IRON_ERROR_DEVICE_LOST;
    case MTLCommandBufferErrorOutOfMemory: return IRON_ERROR_OUT_OF_MEMORY;
    case MTLCommandBufferErrorInvalidResource:
    case MTLCommandBufferErrorNotPermitted:
    case MTLCommandBufferErrorStackOverflow:
    case MTLCommandBufferErrorMemoryless: return IRON_ERROR_DEVICE_INVALID;
    default: return IRON_ERROR_DEVICE_INTERNAL;
  }
}

IronFailure IronFailureFromError(NSError *error) {
  iron_status status = status_of(error);
  const char *text = IronErrorDescribe(error);
  if (status == IRON_ERROR_DEVICE_LOST)
    text = [[NSString stringWithFormat:@"%s; close the device and open it anew", text] UTF8String];
  return IronFailureMake(status, text ? text : "");
}

IronFailure IronFailureMake(iron_status status, const char *text) {
  IronFailure failure = {.status = status};
  IronTextCopy(failure.text, sizeof failure.text, text);
  return failure;
}

void IronFailuresAdd(IronFailures *failures, const IronFailure *failure) {
  if (failures->count < IRON_FAILURES_KEPT) failures->kept[failures->count++] = *failure;
}

IronFailure IronFailuresTake(IronFailures *failures) {
  IronFailure oldest = {.status = IRON_OK};
  if (failures->count == 0) return oldest;
  oldest = failures->kept[0];
  failures->count -= 1;
  memmove(&failures->kept[0], &failures->kept[1], failures->count * sizeof failures->kept[0]);
  return oldest;
}
