#import "device.h"

#include <stdatomic.h>

#import "base/entry.h"
#import "forked.h"
#import "base/handle.h"
#include "held_locks.h"
#import "leaks.h"
#import "ops/pipelines.h"
#import "registry.h"
#import "residency.h"
#import "base/structs.h"
#import "submission.h"
#import "base/text.h"
#import "trace.h"

@implementation IronDevice

IRON_COUNTED(IronDevice)

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  pthread_mutex_init(&commit_order, NULL);
  pthread_mutex_init(&transfer, NULL);
  IronMonitorInit(&monitor);
  pipelines = [[IronPipelines alloc] init];
  return self;
}

- (void)dealloc {
  held_locks_expect_none("a device is destroyed");
  IronRegistryRemove(self);
  if (!IronDeviceIsInherited(self)) [self giveBack];
  [super dealloc];
}

- (void)giveBack {
  if (opened && !atomic_load(&closed)) IronMemoryCheck(self, "closed");
  if (atomic_load(&capturing)) [[MTLCaptureManager sharedCaptureManager] stopCapture];
  IronPoolDiscard(IronPoolTakeOldest(&pool, &memory, UINT64_MAX), metal, "purge");
  IronMonitorLock(&monitor); /* ThreadSanitizer does not see that the last release comes after what others published */
  IronPublicationClose(&memory.publication);
  IronMonitorUnlock(&monitor);
  [pipelines release];
  [residency release];
  [queue release];
  [metal release];
  IronMonitorDestroy(&monitor);
  pthread_mutex_destroy(&transfer);
  pthread_mutex_destroy(&commit_order);
}

@end

IronDevice *IronDeviceMake(id<MTLDevice> metal, id<MTLCommandQueue> queue, const IronExtras *extras,
                           iron_device_kind kind, uint32_t index, const iron_device_options *options) {
  IronForkWatch();
  IronDevice *device = [[[IronDevice alloc] init] autorelease];
  device->metal = [metal retain];
  device->kind = kind;
  device->index = index;
  device->cores = extras->cores ? extras->cores(metal) : 0;
  device->extras = extras;
  device->monitor.wait_budget = extras->wait_budget;
  device->monitor.waited_for = metal;
  device->max_operations = options->max_operations;
  device->max_in_flight = options->max_in_flight;
  device->max_flush_bytes = options->max_flush_bytes;
  device->pool.max_bytes = options->pool_max_bytes;
  device->pool.max_buffers = options->pool_max_buffers;
  device->pool.max_buffer_bytes = options->pool_max_buffer_bytes;
  device->pool.idle_time = options->pool_idle_time;
  device->pool.policy = options->pool_policy;
  device->memory.limit = options->memory_limit;
  device->memory.working_set = [metal recommendedMaxWorkingSetSize];
  device->opened = IronNow();
  /* [queue commandBuffer] blocks when this many are not complete. The bridge never has more: those being recorded,
   * those in flight and one transfer. When Metal frees the slot of a completed one is not documented, so some are
   * spare. */
  enum { TRANSFERS = 1, SPARE = 8 };
  IronPublicationOpen(&device->memory.publication, kind, index, [metal name] ? [[metal name] UTF8String] : "");
  device->max_open = queue ? IRON_OPEN_ON_FOREIGN_QUEUE : IRON_OPEN_COMMAND_BUFFERS;
  device->queue = queue ? [queue retain]
                        : [metal newCommandQueueWithMaxCommandBufferCount:device->max_open + options->max_in_flight +
                                                                          TRANSFERS + SPARE];
  if (device->queue) {
    device->residency = [[IronResidency alloc] initWithMetal:metal queue:device->queue];
    IronTraceStart();
    IronRegistryAdd(device);
    return device;
  }
  IronErrorReport(IRON_ERROR_OUT_OF_MEMORY, "the device gave no command queue");
  return nil;
}

IronDevice *IronDeviceAcquire(iron_device *handle) {
  IronDevice *device = IronHandleAcquire(handle, IRON_HANDLE_DEVICE, "device");
  return device && IronDeviceCheckOpen(device, "device") == IRON_OK ? device : nil;
}

iron_status IronDeviceCheckOpen(IronDevice *device, const char *argument) {
  if (!atomic_load_explicit(&device->closed, memory_order_relaxed)) return IRON_OK;
  if (IronDeviceIsInherited(device))
    return IronErrorReport(IRON_ERROR_INVALID_HANDLE,
                           "%s: its device was opened before this process was forked; a child opens devices of its own", argument);
  return IronErrorReport(IRON_ERROR_INVALID_HANDLE, "%s: its device was closed", argument);
}

bool IronDeviceIsInherited(IronDevice *device) {
  return atomic_load_explicit(&device->inherited, memory_order_relaxed);
}

void IronDeviceLockPool(IronDevice *device) {
  IronMonitorLock(&device->monitor);
  while (device->reaping) IronMonitorWait(&device->monitor);
}

#pragma mark Visits

void IronVisitEnlist(IronVisit *visit, IronDevice *device) {
  visit->device = device;
  visit->serial = ++device->last_visit_serial;
  visit->next = NULL;
  visit->previous = device->last_visit;
  *(visit->previous ? &visit->previous->next : &device->first_visit) = visit;
  device->last_visit = visit;
}

void IronVisitDelist(IronVisit *visit) {
  IronDevice *device = visit->device;
  *(visit->previous ? &visit->previous->next : &device->first_visit) = visit->next;
  *(visit->next ? &visit->next->previous : &device->last_visit) = visit->previous;
  visit->device = nil;
  if (device->closers) IronMonitorSignal(&device->monitor);
}

iron_status IronVisitBegin(IronVisit *visit, IronDevice *device, const char *argument) {
  IronMonitorLock(&device->monitor);
  iron_status status = IronDeviceCheckOpen(device, argument);
  if (status == IRON_OK) IronVisitEnlist(visit, device);
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  return status;
}

void IronVisitEnd(IronVisit *visit) {
  IronDevice *device = visit->device;
  if (!device) return;
  soft_schedule_point();
  IronMonitorLock(&device->monitor);
  IronVisitDelist(visit);
  IronMonitorUnlock(&device->monitor);
}

#pragma mark Closing

/* Monitor held. */
static bool settle(IronDevice *device, uint64_t deadline) {
  uint64_t target = device->last_serial;
  bool in_time = true;
  while (in_time && device->first_in_flight && device->first_in_flight->serial <= target)
    in_time = IronMonitorWaitUntil(&device->monitor, deadline);
  return in_time;
}

/* As `settle`, for the visits of now. */
static bool settle_visits(IronDevice *device, uint64_t deadline) {
  uint64_t target = device->last_visit_serial;
  bool in_time = true;
  while (in_time && device->first_visit && device->first_visit->serial <= target)
    in_time = IronMonitorWaitUntil(&device->monitor, deadline);
  return in_time;
}

bool IronDeviceSettle(IronDevice *device, uint64_t timeout) {
  IronMonitorLock(&device->monitor);
  bool in_time = settle(device, IronDeadlineAfter(timeout));
  IronMonitorUnlock(&device->monitor);
  return in_time;
}

bool IronDeviceClose(IronDevice *device) {
  IronMonitorLock(&device->monitor);
  bool was_open = !atomic_exchange(&device->closed, true);
  IronMonitorUnlock(&device->monitor);
  return was_open;
}

iron_status IronDeviceFinish(IronDevice *device, uint64_t timeout) {
  IRON_TRY(IronSubmissionsCheckWait());
  uint64_t deadline = IronDeadlineAfter(timeout);
  IronMonitorLock(&device->monitor);
  device->closers += 1;
  bool in_time = settle_visits(device, deadline) && settle(device, deadline);
  bool was_open = in_time && !atomic_exchange(&device->closed, true);
  /* Nothing begins any more. What is not over at the deadline is in use, and stays. */
  if (was_open && settle_visits(device, deadline)) settle(device, deadline);
  device->closers -= 1;
  IronMonitorUnlock(&device->monitor);
  soft_schedule_point();
  if (!in_time)
    return IronErrorReport(IRON_ERROR_TIMEOUT, "the device still works after %llu ns", (unsigned long long)timeout);
  if (!was_open) return IronErrorReport(IRON_ERROR_INVALID_HANDLE, "device: another thread has just closed it");
  return IRON_OK;
}

#pragma mark Description

void IronDeviceDescribe(iron_device_info *info, id<MTLDevice> metal, iron_device_kind kind, uint32_t index) {
  const char *name = [[metal name] UTF8String];
  info->kind = kind;
  info->index = index;
  IronTextCopy(info->name, sizeof info->name, name ? name : "");
  info->unified_memory = [metal hasUnifiedMemory];
  info->max_threads_per_threadgroup = (uint32_t)[metal maxThreadsPerThreadgroup].width;
  info->max_threadgroup_memory = (uint32_t)[metal maxThreadgroupMemoryLength];
  info->max_buffer_length = [metal maxBufferLength];
  info->recommended_working_set = [metal recommendedMaxWorkingSetSize];
  info->allocated = [metal currentAllocatedSize];
  info->worked = 0;
}

iron_status iron_device_describe(iron_device *handle, iron_device_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    iron_device_info full;
    IronDeviceDescribe(&full, device->metal, device->kind, device->index);
    full.worked = atomic_load(&device->worked);
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_device_sync(iron_device *handle, uint64_t timeout) {
  IRON_ENTRY {
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IRON_TRY(IronSubmissionsCheckWait());
    IronMonitorLock(&device->monitor);
    bool in_time = settle(device, IronDeadlineAfter(timeout));
    IronFailure failure = IronFailuresTake(&device->failures);
    IronMonitorUnlock(&device->monitor);
    if (failure.status != IRON_OK)
      return IronErrorReport(failure.status, "commands that were released without a wait failed: %s", failure.text);
    if (!in_time)
      return IronErrorReport(IRON_ERROR_TIMEOUT, "the device still works after %llu ns", (unsigned long long)timeout);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_device_retain(iron_device *handle) {
  IRON_ENTRY {
    return IronHandleRetain(handle, IRON_HANDLE_DEVICE, "device");
  } IRON_LEAVE
}

iron_status iron_device_release(iron_device *handle) {
  IRON_ENTRY {
    return IronHandleRelease(handle, IRON_HANDLE_DEVICE, "device");
  } IRON_LEAVE
}
