#import "SoftBackend.h"

#import "SoftConfiguration.h"
#import "SoftError.h"

NSString *const SoftBackendErrorDomain = @"SoftBackendErrorDomain";

@implementation SoftBackend

SOFT_COUNTED(SoftBackend)

- (instancetype)initWithName:(NSString *)which error:(NSError **)error {
  self = [super init];
  if (!self) return nil;
  _name = [[[which componentsSeparatedByString:@":"] objectAtIndex:0] copy];
  char *text = NULL;
  soft_outcome outcome = soft_backend_open([which UTF8String], &_handle, &_table, &text);
  NSString *said = soft_backend_text(text, @"the backend gave no reason");
  if (outcome == SOFT_OK && (_table->version != SOFT_BACKEND_VERSION || _table->size < sizeof *_table)) {
    _table->release(_handle);
    said = [NSString stringWithFormat:@"the backend has version %u of the table, and the device %d", _table->version,
                                      SOFT_BACKEND_VERSION];
    outcome = SOFT_INTERNAL;
  }
  if (outcome == SOFT_OK) {
    _capabilities.size = sizeof _capabilities;
    _table->capabilities(_handle, &_capabilities);
    return self;
  }
  _handle = NULL;
  if (outcome == SOFT_INVALID) {
    NSString *own = [[SoftConfiguration keys] componentsJoinedByString:@", "];
    said = [NSString stringWithFormat:@"%@; the device's own keys are %@", said, own];
  }
  if (error) {
    said = [@"software device: " stringByAppendingString:said];
    NSDictionary *details = [NSDictionary dictionaryWithObject:said forKey:NSLocalizedDescriptionKey];
    *error = [NSError errorWithDomain:SoftBackendErrorDomain code:outcome userInfo:details];
  }
  [self release];
  return nil;
}

- (void)dealloc {
  if (_handle) _table->release(_handle);
  [_name release];
  [super dealloc];
}

- (NSString *)name {
  return _name;
}

- (soft_backend *)handle {
  return _handle;
}

- (const soft_backend_table *)table {
  return _table;
}

- (const soft_capabilities *)capabilities {
  return &_capabilities;
}

@end
