#import "SoftBinaryArchive.h"

#import "SoftError.h"
#import "SoftFile.h"
#import "SoftFunction.h"
#import "SoftValidation.h"

static NSString *const first_line = @"software Metal device, binary archive 1";

@implementation SoftBinaryArchive

SOFT_COUNTED(SoftBinaryArchive)

- (instancetype)initWithDevice:(SoftDevice *)device url:(NSURL *)url error:(NSError **)error {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _names = [NSMutableSet new];
  if (!url) return self;
  NSString *text = soft_file_read([url path]);
  NSArray *lines = [text componentsSeparatedByString:@"\n"];
  if ([lines count] > 1 && [[lines objectAtIndex:0] isEqualToString:first_line]) {
    for (NSString *name in [lines subarrayWithRange:NSMakeRange(1, [lines count] - 1)])
      if ([name length] > 0) [_names addObject:name];
    return self;
  }
  if (error) *error = soft_archive_error(MTLBinaryArchiveErrorInvalidFile, @"this is no archive of this device");
  [self release];
  return nil;
}

- (void)dealloc {
  [_names release];
  [_device release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor *)descriptor error:(NSError **)error {
  (void)error;
  SOFT_REQUIRE(descriptor, @"descriptor must not be nil");
  SoftFunction *function = soft_require_function(self, _cmd, @"computeFunction", [descriptor computeFunction], _device);
  [_names addObject:[function name]];
  return YES;
}

- (BOOL)serializeToURL:(NSURL *)url error:(NSError **)error {
  SOFT_REQUIRE(url, @"url must not be nil");
  SOFT_REQUIRE_STATE([_names count] > 0, @"the archive is empty");
  NSArray *names = [[_names allObjects] sortedArrayUsingSelector:@selector(compare:)];
  NSString *text = [NSString stringWithFormat:@"%@\n%@\n", first_line, [names componentsJoinedByString:@"\n"]];
  if (soft_file_write([url path], text)) return YES;
  if (error) *error = soft_archive_error(MTLBinaryArchiveErrorInvalidFile, @"the file cannot be written");
  return NO;
}

@end
