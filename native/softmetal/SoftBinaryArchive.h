/* id<MTLBinaryArchive>: the names of kernels. What a kernel was compiled to is in the backend's own cache, so that the
 * file is no more than the proof that it was written and read. */
#ifndef SOFT_BINARY_ARCHIVE_H
#define SOFT_BINARY_ARCHIVE_H

#import "SoftDevice.h"

@interface SoftBinaryArchive : SoftObject <MTLBinaryArchive> {
@private
  SoftDevice *_device;
  NSMutableSet *_names;
}
/* nil and *error when there is a url and no archive of this device's is there. */
- (instancetype)initWithDevice:(SoftDevice *)device url:(NSURL *)url error:(NSError **)error;
@end

#endif
