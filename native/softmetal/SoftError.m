#import "SoftError.h"

#include <stdlib.h>

NSError *soft_error_of(NSErrorDomain domain, NSInteger code, NSString *text) {
  NSDictionary *details = [NSDictionary dictionaryWithObject:text forKey:NSLocalizedDescriptionKey];
  return [NSError errorWithDomain:domain code:code userInfo:details];
}

NSError *soft_command_buffer_error(NSUInteger code, NSString *text) {
  return soft_error_of(MTLCommandBufferErrorDomain, (NSInteger)code, text);
}

NSError *soft_library_error(MTLLibraryError code, NSString *text) {
  return soft_error_of(MTLLibraryErrorDomain, (NSInteger)code, text);
}

NSError *soft_archive_error(MTLBinaryArchiveError code, NSString *text) {
  return soft_error_of(MTLBinaryArchiveDomain, (NSInteger)code, text);
}

NSString *soft_backend_text(char *text, NSString *fallback) {
  if (!text) return fallback;
  NSString *string = [NSString stringWithUTF8String:text];
  free(text);
  return string ? string : fallback;
}

MTLCommandBufferError soft_outcome_code(soft_outcome outcome) {
  switch (outcome) {
  case SOFT_OK: return MTLCommandBufferErrorNone;
  case SOFT_PAGE_FAULT: return MTLCommandBufferErrorPageFault;
  case SOFT_INVALID: return MTLCommandBufferErrorInvalidResource;
  case SOFT_OUT_OF_MEMORY: return MTLCommandBufferErrorOutOfMemory;
  case SOFT_STACK_OVERFLOW: return MTLCommandBufferErrorStackOverflow;
  case SOFT_TIMEOUT: return MTLCommandBufferErrorTimeout;
  case SOFT_DEVICE_LOST: return MTLCommandBufferErrorDeviceRemoved;
  case SOFT_CANCELED:
  case SOFT_INTERNAL:
  case SOFT_UNSUPPORTED: break;
  }
  return MTLCommandBufferErrorInternal;
}
