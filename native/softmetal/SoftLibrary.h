/* id<MTLLibrary>: a source that the backend compiled. */
#ifndef SOFT_LIBRARY_H
#define SOFT_LIBRARY_H

#import "SoftBackend.h"

@class SoftDevice;

@interface SoftLibrary : SoftObject <MTLLibrary> {
@private
  SoftDevice *_device;
  SoftBackend *_backend;
  soft_module *_handle;
  NSArray *_names;
  NSString *_label;
}
/* nil and *error (MTLLibraryErrorDomain, the compiler's text) when the source does not compile. */
- (instancetype)initWithDevice:(SoftDevice *)device
                        source:(NSString *)source
                       options:(MTLCompileOptions *)options
                         error:(NSError **)error;
@end

#endif
