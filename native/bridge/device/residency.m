#import "residency.h"

#import "buffer.h"
#import "debug_memory.h"
#include "base/monitor.h"
#import "reaper.h"

/* Half of the time after which macOS unwires what no command buffer uses. */
static const uint64_t BEAT = UINT64_C(500000000);

/* What the bridge uses of macOS 15's API, under names of its own: SDKs without it compile this, too, and no class of
 * it is linked. */
API_AVAILABLE(macos(15.0))
@protocol IronResidencySet <NSObject>
- (void)addAllocation:(id)allocation;
- (void)removeAllocation:(id)allocation;
- (void)commit;
- (void)requestResidency;
- (void)endResidency;
@end

API_AVAILABLE(macos(15.0))
@protocol IronMakesResidencySets
- (id)newResidencySetWithDescriptor:(id)descriptor error:(NSError **)error NS_RETURNS_RETAINED;
@end

API_AVAILABLE(macos(15.0))
@protocol IronUsesResidencySets
- (void)addResidencySet:(id)set;
- (void)removeResidencySet:(id)set;
@end

/* +1, or nil. */
static id new_set(id<MTLDevice> metal, id<MTLCommandQueue> queue) {
  if (@available(macOS 15.0, *)) {
    Class described = NSClassFromString(@"MTLResidencySetDescriptor");
    if (!described || ![metal respondsToSelector:@selector(newResidencySetWithDescriptor:error:)]) return nil;
    id descriptor = [[[described alloc] init] autorelease];
    id set = [(id<IronMakesResidencySets>)metal newResidencySetWithDescriptor:descriptor error:NULL];
    if (set) [(id<IronUsesResidencySets>)queue addResidencySet:set];
    return set;
  }
  return nil;
}

@implementation IronResidency

IRON_COUNTED(IronResidency)

- (instancetype)initWithMetal:(id<MTLDevice>)metal queue:(id<MTLCommandQueue>)used {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&gate, NULL);
  queue = used;
  most = [metal recommendedMaxWorkingSetSize];
  set = new_set(metal, queue);
  if (set) return self;
  [self release];
  return nil;
}

- (void)dealloc {
  if (@available(macOS 15.0, *)) {
    if (set) {
      [set endResidency];
      [(id<IronUsesResidencySets>)queue removeResidencySet:set];
    }
  }
  [set release];
  pthread_mutex_destroy(&gate);
  [super dealloc];
}

/* Gate closed behind the caller. What is committed to a set that was requested is resident at once. */
- (void)commitChange {
  if (@available(macOS 15.0, *)) {
    [set commit];
    if (requested) return;
    [set requestResidency];
    requested = true;
  }
}

- (bool)add:(id<MTLBuffer>)metal {
  uint64_t length = [metal allocatedSize];
  bool added = false;
  IronGateEnter(&gate);
  @try {
    if (@available(macOS 15.0, *)) {
      if (bytes <= most && length <= most - bytes) {
        [set addAllocation:metal];
        bytes += length;
        added = true;
        [self commitChange];
      }
    }
  } @catch (id raised) {
    (void)raised; /* it is slower then, and right */
  } @finally {
    IronGateLeave(&gate);
  }
  return added;
}

- (void)remove:(id<MTLBuffer>)metal {
  IronGateEnter(&gate);
  @try {
    if (@available(macOS 15.0, *)) {
      [set removeAllocation:metal];
      bytes -= [metal allocatedSize];
      [self commitChange];
    }
  } @catch (id raised) {
    (void)raised;
  } @finally {
    IronGateLeave(&gate);
  }
}

- (void)request:(id<MTLDevice>)metal {
  IronMemoryChange change = IronDebugMemoryBefore(metal);
  IronGateEnter(&gate);
  uint64_t resident = bytes;
  @try {
    if (@available(macOS 15.0, *)) [set requestResidency];
  } @catch (id raised) {
    (void)raised;
  } @finally {
    IronGateLeave(&gate);
  }
  IronDebugMemoryAfter(&change, "resident", resident, resident, "weights and KV caches", 0);
}

@end

static bool belongs(const IronBuffer *buffer) {
  return buffer->category == IRON_CATEGORY_WEIGHTS || buffer->category == IRON_CATEGORY_KV_CACHE;
}

void IronResidencyJoin(IronBuffer *buffer) {
  IronDevice *device = buffer->device;
  if (!device->residency || !belongs(buffer)) return;
  buffer->resident = [device->residency add:buffer->metal];
  if (buffer->category == IRON_CATEGORY_KV_CACHE) IronReaperExpect(IronNow() + BEAT);
}

void IronResidencyLeave(IronBuffer *buffer) {
  if (!buffer->resident) return;
  [buffer->device->residency remove:buffer->metal];
  buffer->resident = false;
}

uint64_t IronResidencyNextBeat(const IronDevice *device) {
  bool lives = device->residency && device->memory.categories[IRON_CATEGORY_KV_CACHE].count > 0;
  return lives ? device->last_beat + BEAT : UINT64_MAX;
}

void IronResidencyBeat(IronDevice *device, uint64_t now) {
  IronMonitorLock(&device->monitor);
  bool due = IronResidencyNextBeat(device) <= now;
  if (due) device->last_beat = now;
  IronMonitorUnlock(&device->monitor);
  if (due) [device->residency request:device->metal];
}
