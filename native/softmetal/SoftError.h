/* NSErrors of the software device, autoreleased, with the text under NSLocalizedDescriptionKey. */
#ifndef SOFT_ERROR_H
#define SOFT_ERROR_H

#import "SoftObject.h"
#include "executor.h"

NSError *soft_command_buffer_error(NSUInteger code, NSString *text);
NSError *soft_library_error(MTLLibraryError code, NSString *text);
/* An executor's text, which is released; `fallback` where it gave none. */
NSString *soft_executor_text(const soft_executor *executor, char *text, NSString *fallback);
/* The MTLCommandBufferError that an executor's outcome stands for. */
MTLCommandBufferError soft_outcome_code(soft_outcome outcome);

#endif
