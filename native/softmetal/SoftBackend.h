/* An open backend (backend.h), and what it can do. Whatever is made of it keeps it. */
#ifndef SOFT_BACKEND_OBJECT_H
#define SOFT_BACKEND_OBJECT_H

#import "SoftObject.h"
#include "backend.h"

/* Of errors that say why a backend did not open; the code is a soft_outcome. */
extern NSString *const SoftBackendErrorDomain;

@interface SoftBackend : SoftObject {
@private
  soft_backend *_handle;
  const soft_backend_table *_table;
  soft_capabilities _capabilities;
  NSString *_name;
}
/* nil and *error when soft_backend_open refuses `which`. */
- (instancetype)initWithName:(NSString *)which error:(NSError **)error;
/* Without what it is to be like. */
- (NSString *)name;
- (soft_backend *)handle;
- (const soft_backend_table *)table;
- (const soft_capabilities *)capabilities;
@end

#endif
