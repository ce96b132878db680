#import "SoftConfiguration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static NSString *const domain = @"SoftMetalConfiguration";

/* A run of decimal digits; *end is the first character after it. NO where there is none or it does not fit. */
static BOOL read_digits(const char *text, uint64_t *number, const char **end) {
  if (*text < '0' || *text > '9') return NO;
  errno = 0;
  char *after;
  *number = strtoull(text, &after, 10);
  *end = after;
  return errno == 0;
}

static BOOL read_number(NSString *value, uint64_t *number) {
  const char *end;
  return read_digits([value UTF8String], number, &end) && *end == 0 && *number > 0;
}

static BOOL read_bytes(NSString *value, uint64_t *bytes) {
  const char *end;
  if (!read_digits([value UTF8String], bytes, &end) || *bytes == 0) return NO;
  unsigned shift = 0;
  if (*end) {
    const char *suffix = strchr("KMG", *end);
    if (!suffix || end[1]) return NO;
    shift = 10 * (unsigned)(*suffix == 'K' ? 1 : *suffix == 'M' ? 2 : 3);
  }
  if (*bytes > UINT64_MAX >> shift) return NO;
  *bytes <<= shift;
  return YES;
}

static BOOL read_code(NSString *value, uint64_t *code) {
  static const struct {
    const char *name;
    MTLCommandBufferError code;
  } names[] = {
      {"internal", MTLCommandBufferErrorInternal},
      {"timeout", MTLCommandBufferErrorTimeout},
      {"page_fault", MTLCommandBufferErrorPageFault},
      {"access_revoked", MTLCommandBufferErrorAccessRevoked},
      {"not_permitted", MTLCommandBufferErrorNotPermitted},
      {"out_of_memory", MTLCommandBufferErrorOutOfMemory},
      {"invalid_resource", MTLCommandBufferErrorInvalidResource},
      {"device_removed", MTLCommandBufferErrorDeviceRemoved},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp([value UTF8String], names[i].name) == 0) {
      *code = names[i].code;
      return YES;
    }
  }
  return read_number(value, code) && *code <= NSIntegerMax;
}

@implementation SoftConfiguration

SOFT_COUNTED(SoftConfiguration)

+ (NSArray *)keys {
  return [NSArray arrayWithObjects:@"max_buffer_length", @"memory_limit", @"fail_allocation", @"fail_command_buffer",
                                   @"delay_us", @"schedule", @"gpu", @"simd_width", @"late", @"after_fault",
                                   @"strict", nil];
}

- (instancetype)initWithText:(const char *)text error:(NSError **)error {
  self = [super init];
  if (!self) return nil;
  _memoryLimit = UINT64_MAX;
  _gpu = SoftGpuDefault;
  _backendOptions = [NSMutableArray new];
  _failingAllocations = [NSMutableIndexSet new];
  _failingCommandBuffers = [NSMutableDictionary new];
  const char *strict = getenv("IRONBRIDGE_SOFT_STRICT");
  NSString *wrong = nil;
  if (strict) wrong = [self readKey:@"strict" value:[NSString stringWithUTF8String:strict]];
  if (!wrong && text && *text) wrong = [self read:[NSString stringWithUTF8String:text]];
  if (!wrong) return self;
  if (error) {
    NSString *said = [@"software device: " stringByAppendingString:wrong];
    *error = [NSError errorWithDomain:domain
                                 code:1
                             userInfo:[NSDictionary dictionaryWithObject:said forKey:NSLocalizedDescriptionKey]];
  }
  [self release];
  return nil;
}

- (void)dealloc {
  [_backendOptions release];
  [_failingAllocations release];
  [_failingCommandBuffers release];
  [super dealloc];
}

/* What is wrong with the text, or nil. */
- (NSString *)read:(NSString *)text {
  if (!text) return @"the configuration is not UTF-8";
  NSMutableSet *seen = [NSMutableSet set];
  for (NSString *entry in [text componentsSeparatedByString:@","]) {
    NSRange equals = [entry rangeOfString:@"="];
    NSString *key = equals.location == NSNotFound ? entry : [entry substringToIndex:equals.location];
    if ([entry length] == 0) return @"'' is not of the form KEY=VALUE";
    if (![[SoftConfiguration keys] containsObject:key]) {
      [_backendOptions addObject:entry];
      continue;
    }
    if (equals.location == NSNotFound) return [NSString stringWithFormat:@"'%@' is not of the form KEY=VALUE", entry];
    NSString *value = [entry substringFromIndex:NSMaxRange(equals)];
    BOOL repeatable = [key hasPrefix:@"fail_"];
    if (!repeatable && [seen containsObject:key]) return [NSString stringWithFormat:@"%@ is given twice", key];
    [seen addObject:key];
    NSString *wrong = [self readKey:key value:value];
    if (wrong) return wrong;
  }
  return nil;
}

- (NSString *)readKey:(NSString *)key value:(NSString *)value {
  uint64_t number;
  if ([key isEqualToString:@"max_buffer_length"]) {
    return read_bytes(value, &_maxBufferLength) ? nil : [self wrongValue:value of:key form:@"BYTES, as 4096 or 1G"];
  }
  if ([key isEqualToString:@"memory_limit"]) {
    return read_bytes(value, &_memoryLimit) ? nil : [self wrongValue:value of:key form:@"BYTES, as 4096 or 1G"];
  }
  if ([key isEqualToString:@"delay_us"]) {
    return read_number(value, &_delay) ? nil : [self wrongValue:value of:key form:@"a number of microseconds"];
  }
  if ([key isEqualToString:@"schedule"]) {
    NSArray *parts = [value componentsSeparatedByString:@":"];
    _scheduledThreads = 1;
    BOOL read = [parts count] <= 2 && read_number([parts objectAtIndex:0], &_schedule) &&
                ([parts count] == 1 || read_number([parts objectAtIndex:1], &_scheduledThreads));
    return read ? nil : [self wrongValue:value of:key form:@"SEED or SEED:THREADS, as 17 or 17:3"];
  }
  if ([key isEqualToString:@"gpu"]) {
    _gpu = SoftGpuNamed([value UTF8String]);
    return _gpu ? nil : [self wrongValue:value of:key form:[@"one of " stringByAppendingString:SoftGpuKeys()]];
  }
  if ([key isEqualToString:@"simd_width"]) {
    BOOL read = read_number(value, &_simdWidth) && _simdWidth <= 64 && (_simdWidth & (_simdWidth - 1)) == 0;
    return read ? nil : [self wrongValue:value of:key form:@"8, 16, 32 or another power of 2 up to 64"];
  }
  if ([key isEqualToString:@"late"]) {
    return read_number(value, &_lateSeed) ? nil : [self wrongValue:value of:key form:@"a SEED from 1"];
  }
  if ([key isEqualToString:@"after_fault"]) {
    _ignoresAfterFault = [value isEqualToString:@"ignore"];
    return _ignoresAfterFault ? nil : [self wrongValue:value of:key form:@"ignore"];
  }
  if ([key isEqualToString:@"strict"]) {
    _isStrict = [value isEqualToString:@"apple"];
    return _isStrict || [value isEqualToString:@"no"] ? nil : [self wrongValue:value of:key form:@"apple or no"];
  }
  if ([key isEqualToString:@"fail_allocation"]) {
    BOOL read = read_number(value, &number) && number < NSNotFound;
    if (!read) return [self wrongValue:value of:key form:@"a number from 1"];
    [_failingAllocations addIndex:(NSUInteger)number];
    return nil;
  }
  if ([key isEqualToString:@"fail_command_buffer"]) {
    NSArray *parts = [value componentsSeparatedByString:@":"];
    uint64_t code;
    BOOL read = [parts count] == 2 && read_number([parts objectAtIndex:0], &number) &&
                read_code([parts objectAtIndex:1], &code);
    if (!read) return [self wrongValue:value of:key form:@"N:CODE, as 1:timeout or 3:8"];
    [_failingCommandBuffers setObject:[NSNumber numberWithUnsignedLongLong:code]
                               forKey:[NSNumber numberWithUnsignedLongLong:number]];
    return nil;
  }
  return nil;
}

- (NSString *)wrongValue:(NSString *)value of:(NSString *)key form:(NSString *)form {
  return [NSString stringWithFormat:@"%@=%@: the value must be %@", key, value, form];
}

- (NSString *)backendOptions {
  return [_backendOptions componentsJoinedByString:@","];
}

- (uint64_t)maxBufferLength {
  return _maxBufferLength;
}

- (uint64_t)memoryLimit {
  return _memoryLimit;
}

- (uint64_t)delay {
  return _delay;
}

- (uint64_t)schedule {
  return _schedule;
}

- (uint64_t)scheduledThreads {
  return _scheduledThreads;
}

- (const SoftGpu *)gpu {
  return _gpu;
}

- (NSUInteger)simdWidth {
  return _simdWidth ? (NSUInteger)_simdWidth : _gpu->thread_execution_width;
}

- (BOOL)isStrict {
  return _isStrict;
}

- (BOOL)ignoresAfterFault {
  return _ignoresAfterFault;
}

/* The seed's bits, mixed with the number's (splitmix64); without a seed the strictest. */
- (BOOL)endsLate:(uint64_t)number {
  if (!_lateSeed) return _isStrict;
  uint64_t mixed = (_lateSeed + number) * UINT64_C(0x9e3779b97f4a7c15);
  mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
  return (mixed ^ mixed >> 31) & 1;
}

- (BOOL)failsAllocation:(uint64_t)number {
  return [_failingAllocations containsIndex:(NSUInteger)number];
}

- (NSUInteger)errorOfCommandBuffer:(uint64_t)number {
  if ([_failingCommandBuffers count] == 0) return 0;
  @autoreleasepool {
    NSNumber *key = [NSNumber numberWithUnsignedLongLong:number];
    return [[_failingCommandBuffers objectForKey:key] unsignedIntegerValue];
  }
}

@end
