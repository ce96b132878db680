#import "SoftHeapStorage.h"

@implementation SoftHeapMemory

SOFT_COUNTED(SoftHeapMemory)

- (instancetype)initWithSpace:(SoftHeapSpace *)space length:(NSUInteger)length {
  self = [super initWithLimit:UINT64_MAX page:SOFT_HEAP_ALIGNMENT];
  if (!self) return nil;
  NSUInteger bytes = [self charged:length];
  soft_heap_range *range = bytes ? [space take:bytes] : NULL;
  if (range) {
    _space = [space retain];
    _offset = range->offset;
    atomic_init(&_range, range);
    return self;
  }
  [self release];
  return nil;
}

- (void)dealloc {
  [self giveUp];
  [_space release];
  [super dealloc];
}

- (SoftHeapSpace *)space {
  return _space;
}

- (NSUInteger)offset {
  return _offset;
}

- (void)setBuffer:(soft_buffer *)buffer {
  soft_heap_range *range = atomic_load(&_range);
  if (range) [_space setBuffer:buffer of:range];
}

- (void)giveUp {
  soft_heap_range *range = atomic_exchange(&_range, NULL);
  if (range) [_space giveBack:range];
}

- (BOOL)isGivenUp {
  return atomic_load(&_range) == NULL;
}

@end

@implementation SoftHeapStorage

SOFT_COUNTED(SoftHeapStorage)

- (instancetype)initWithLength:(NSUInteger)length
                       storage:(soft_storage)storage
                       backend:(SoftBackend *)backend
                         space:(SoftHeapSpace *)space {
  SoftHeapMemory *range = [[SoftHeapMemory alloc] initWithSpace:space length:length]; /* nil: no storage either */
  self = [super initWithLength:length storage:storage backend:backend memory:range];
  [range release]; /* the storage has it */
  if (!self) return nil;
  _range = range;
  soft_uses_release(_uses);
  _uses = soft_uses_retain([space uses]);
  [range setBuffer:[self buffer]];
  return self;
}

- (void)dealloc {
  [_range setBuffer:NULL];
  [super dealloc];
}

- (SoftHeapMemory *)range {
  return _range;
}

- (NSString *)beginUse {
  return [[_range space] beginUse];
}

@end
