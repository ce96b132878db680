/* NSErrors of the software device, autoreleased, with the text under NSLocalizedDescriptionKey. */
#ifndef SOFT_ERROR_H
#define SOFT_ERROR_H

#import "SoftObject.h"
#include "backend.h"

NSError *soft_command_buffer_error(NSUInteger code, NSString *text);
NSError *soft_error_of(NSErrorDomain domain, NSInteger code, NSString *text);
NSError *soft_archive_error(MTLBinaryArchiveError code, NSString *text);
NSError *soft_library_error(MTLLibraryError code, NSString *text);
/* A backend's text, which is freed; `fallback` where it gave none. */
NSString *soft_backend_text(char *text, NSString *fallback);
/* The MTLCommandBufferError that a backend's outcome stands for. */
MTLCommandBufferError soft_outcome_code(soft_outcome outcome);

#endif
