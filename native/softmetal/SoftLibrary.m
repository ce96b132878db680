#import "SoftLibrary.h"

#import "SoftConstants.h"
#import "SoftDevice.h"
#import "SoftError.h"
#import "SoftFunction.h"
#import "SoftValidation.h"

/* MTLLanguageVersion3_1, which is of macOS 14. */
static const MTLLanguageVersion newest = (MTLLanguageVersion)((3 << 16) + 1);

static BOOL knows(MTLLanguageVersion version) {
  static const MTLLanguageVersion older[] = {MTLLanguageVersion2_0, MTLLanguageVersion2_1, MTLLanguageVersion2_2,
                                             MTLLanguageVersion2_3, MTLLanguageVersion2_4, MTLLanguageVersion3_0};
  if (version == newest) return YES;
  for (size_t i = 0; i < sizeof older / sizeof *older; i++)
    if (older[i] == version) return YES;
  return NO;
}

/* The version and the options' macros become lines before the source; #line keeps the compiler's messages on the
 * source's own lines. The other options choose among Apple's code generators and change nothing here. */
static NSString *with_macros(NSString *source, MTLCompileOptions *options) {
  NSDictionary *macros = [options preprocessorMacros];
  MTLLanguageVersion version = options ? [options languageVersion] : newest;
  if ([macros count] == 0 && version == newest) return source;
  NSMutableString *text = [NSMutableString string];
  unsigned long number = 100 * (version >> 16) + 10 * (version & 0xffff);
  if (version != newest)
    [text appendFormat:@"#undef __METAL_VERSION__\n#define __METAL_VERSION__ %lu\n", number];
  for (NSString *name in [[macros allKeys] sortedArrayUsingSelector:@selector(compare:)]) {
    [text appendFormat:@"#define %@ %@\n", name, [macros objectForKey:name]];
  }
  [text appendString:@"#line 1\n"];
  [text appendString:source];
  return text;
}

@implementation SoftLibrary

SOFT_COUNTED(SoftLibrary)

@synthesize label = _label;

- (instancetype)initWithDevice:(SoftDevice *)device
                        source:(NSString *)source
                       options:(MTLCompileOptions *)options
                         error:(NSError **)error {
  self = [super init];
  if (!self) return nil;
  _device = [device retain];
  _backend = [[device backend] retain];
  if (options && !knows([options languageVersion])) {
    NSString *said = @"this device knows the Metal Shading Language up to version 3.1";
    if (error) *error = soft_library_error(MTLLibraryErrorUnsupported, said);
    [self release];
    return nil;
  }
  NSData *text = [with_macros(source, options) dataUsingEncoding:NSUTF8StringEncoding];
  char *detail = NULL;
  soft_outcome outcome =
      [_backend table]->module_create([_backend handle], [text bytes], [text length], &_handle, &detail);
  NSString *said = soft_backend_text(detail, @"the compiler gave no reason");
  if (outcome == SOFT_OK) {
    [self readNames];
    return self;
  }
  _handle = NULL;
  MTLLibraryError code = outcome == SOFT_UNSUPPORTED ? MTLLibraryErrorUnsupported : MTLLibraryErrorCompileFailure;
  if (error) *error = soft_library_error(code, said);
  [self release];
  return nil;
}

/* Once: who asks for each of a thousand names by its index asks for all of them a thousand times. */
- (void)readNames {
  NSMutableArray *names = [NSMutableArray array];
  const char *name;
  for (size_t i = 0; (name = [_backend table]->module_function_name(_handle, i)); i++)
    [names addObject:[NSString stringWithUTF8String:name]];
  _names = [names copy];
}

- (void)dealloc {
  @autoreleasepool {
    [_names release];
    if (_handle) [_backend table]->module_release(_handle);
    [_backend release];
    [_label release];
    [_device release];
  }
  [super dealloc];
}

- (id<MTLDevice>)device {
  return (id<MTLDevice>)_device;
}

- (NSArray *)functionNames {
  return _names;
}

- (SoftFunction *)newFunction:(NSString *)name constants:(NSData *)constants error:(NSError **)error {
  char *detail = NULL;
  soft_function *handle = NULL;
  soft_outcome outcome = [_backend table]->function_create(
      _handle, [name UTF8String], [constants bytes], [constants length] / sizeof(soft_constant), &handle, &detail);
  NSString *said = soft_backend_text(detail, @"the compiler gave no reason");
  if (outcome == SOFT_OK) return [[SoftFunction alloc] initWithDevice:_device handle:handle name:name];
  if (error) {
    BOOL known = [[self functionNames] containsObject:name];
    *error = soft_library_error(known ? MTLLibraryErrorCompileFailure : MTLLibraryErrorFunctionNotFound, said);
  }
  return nil;
}

- (id<MTLFunction>)newFunctionWithName:(NSString *)name {
  SOFT_REQUIRE(name, @"functionName must not be nil");
  return [self newFunction:name constants:nil error:NULL];
}

- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)constantValues
                                 error:(NSError **)error {
  SOFT_REQUIRE(name, @"name must not be nil");
  SOFT_REQUIRE(constantValues, @"constantValues must not be nil");
  NSData *constants = soft_constants(constantValues, error);
  if (constants) return [self newFunction:name constants:constants error:error];
  /* A function that cannot be made without constants either says more than that they cannot be read. */
  [[self newFunction:name constants:nil error:error] release];
  return nil;
}

@end
