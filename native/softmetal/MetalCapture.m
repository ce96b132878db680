/* MTLCaptureManager for hosts where no Metal.framework has one. */
#ifndef __APPLE__

#import "MetalCapture.h"

#import "SoftError.h"
#import "SoftFile.h"
#include "SoftLock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

NSErrorDomain const MTLCaptureErrorDomain = @"MTLCaptureErrorDomain";

static NSString *const first_line = @"software Metal device, capture 1\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static id captured; /* retained; nil: no capture is under way */
static NSMutableString *text;
static NSURL *file;
static atomic_bool capturing;

@implementation MTLCaptureDescriptor

@synthesize captureObject = _captureObject;
@synthesize destination = _destination;
@synthesize outputURL = _outputURL;

- (void)dealloc {
  [_captureObject release];
  [_outputURL release];
  [super dealloc];
}

@end

void metal_capture_note(id queue, id<MTLCommandBuffer> commands) {
  if (!atomic_load(&capturing)) return;
  NSString *line = [NSString stringWithFormat:@"command buffer '%@': status %lu, %.9f s to %.9f s\n",
                                              [commands label] ? [commands label] : @"",
                                              (unsigned long)[commands status], [commands GPUStartTime],
                                              [commands GPUEndTime]];
  soft_lock(&lock);
  if (captured == queue) [text appendString:line];
  soft_unlock(&lock);
}

@implementation MTLCaptureManager

+ (MTLCaptureManager *)sharedCaptureManager {
  static MTLCaptureManager *shared;
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once);
  if (!shared) shared = [[MTLCaptureManager alloc] init];
  pthread_mutex_unlock(&once);
  return shared;
}

- (BOOL)isCapturing {
  return atomic_load(&capturing);
}

- (BOOL)supportsDestination:(MTLCaptureDestination)destination {
  const char *enabled = getenv("MTL_CAPTURE_ENABLED");
  return destination == MTLCaptureDestinationGPUTraceDocument && enabled && strcmp(enabled, "1") == 0;
}

static BOOL refuse(NSError **error, MTLCaptureError code, NSString *said) {
  if (error) *error = soft_error_of(MTLCaptureErrorDomain, code, said);
  return NO;
}

- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor *)descriptor error:(NSError **)error {
  if (![self supportsDestination:[descriptor destination]])
    return refuse(error, MTLCaptureErrorNotSupported, @"captures are not enabled");
  if (![descriptor captureObject] || ![descriptor outputURL])
    return refuse(error, MTLCaptureErrorInvalidDescriptor, @"captureObject and outputURL are needed");
  NSURL *url = [[[descriptor outputURL] copy] autorelease];
  if (!soft_file_write([url path], first_line))
    return refuse(error, MTLCaptureErrorInvalidDescriptor, @"outputURL cannot be written");
  NSMutableString *begun = [NSMutableString stringWithString:first_line];
  soft_lock(&lock);
  BOOL free = captured == nil;
  if (free) {
    captured = [[descriptor captureObject] retain];
    file = [url retain];
    text = [begun retain];
    atomic_store(&capturing, true);
  }
  soft_unlock(&lock);
  if (free) return YES;
  [[NSFileManager defaultManager] removeItemAtPath:[url path] error:NULL];
  return refuse(error, MTLCaptureErrorAlreadyCapturing, @"a capture is under way");
}

- (void)stopCapture {
  soft_lock(&lock);
  id object = captured;
  NSURL *url = file;
  NSMutableString *lines = text;
  captured = nil;
  file = nil;
  text = nil;
  atomic_store(&capturing, false);
  soft_unlock(&lock);
  if (url) soft_file_write([url path], lines);
  [lines release];
  [url release];
  [object release];
}

@end

#endif
