/* An open device: the Metal device, its one queue, and all that its buffers and commands share. */
#ifndef IRON_BRIDGE_DEVICE_H
#define IRON_BRIDGE_DEVICE_H

#import <Metal/Metal.h>

#include "failure.h"
#include "ironbridge.h"
#include "memory.h"
#include "monitor.h"
#import "object.h"
#include "pool.h"

@class IronBuffer;
@class IronPipelines;
@class IronSubmission;

/* Commands that are open at once, each with a command buffer that is not committed. */
enum { IRON_OPEN_COMMAND_BUFFERS = 64 };

@interface IronDevice : IronObject {
 @public
  id<MTLDevice> metal;
  id<MTLCommandQueue> queue;
  IronPipelines *pipelines;
  iron_device_kind kind;
  uint32_t index;
  uint32_t max_operations, max_in_flight;
  uint64_t max_flush_bytes;
  uint64_t opened;         /* IronNow when it was */
  _Atomic(bool) closed;    /* nothing is made or used any more, only given back; changes with the monitor held */
  IronDevice *next_open, *previous_open; /* among the process's open devices, guarded by the registry */
  bool listed;

  /* Held from the serial number's making to the commit, so that serial order is the device's order. Taken before
   * `monitor`. */
  pthread_mutex_t commit_order;
  /* Held by the one copy between host and private memory that is under way. Taken before everything else. */
  pthread_mutex_t transfer;

  /* Guards all that follows, the hazards of the device's buffers, and what became of its submissions. */
  IronMonitor monitor;
  IronSubmission *first_in_flight, *last_in_flight; /* by serial; each is retained while it is listed */
  uint64_t last_serial;
  uint32_t open;      /* command buffers made and not yet committed */
  uint32_t in_flight; /* submitted, or about to be, and not complete */
  IronMemory memory;
  IronPool pool;
  IronBuffer *newest_buffer; /* of the ledger, by `older`; none is retained */
  IronFailures failures; /* whose commands were released without a wait */
}
@end

/* Takes over `metal`; `options` are complete and checked. Autoreleased; nil, with the error reported, when it has no
 * queue. */
IronDevice *IronDeviceMake(id<MTLDevice> metal, iron_device_kind kind, uint32_t index,
                           const iron_device_options *options);

/* The device of a handle, as IronHandleAcquire. */
IronDevice *IronDeviceAcquire(iron_device *handle);

/* Refuses what would use a closed device. `argument` names the handle that leads there. */
iron_status IronDeviceCheckOpen(IronDevice *device, const char *argument);
/* Waits for what is in flight now; false when `timeout` passes first. */
bool IronDeviceSettle(IronDevice *device, uint64_t timeout);
/* Closes the device for everybody; false when it is closed already. */
bool IronDeviceClose(IronDevice *device);

/* Describes a Metal device, opened or not. */
void IronDeviceDescribe(iron_device_info *info, id<MTLDevice> metal, iron_device_kind kind, uint32_t index);

#endif
