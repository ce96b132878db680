/* An open device: the Metal device, its one queue, and all that its buffers and commands share. */
#ifndef IRON_BRIDGE_DEVICE_H
#define IRON_BRIDGE_DEVICE_H

#import <Metal/Metal.h>

#include "base/failure.h"
#include "ironbridge.h"
#include "memory.h"
#include "base/monitor.h"
#import "base/object.h"
#include "pool.h"
#include "weights.h"

@class IronBuffer;
@class IronDevice;
@class IronPipelines;
@class IronResidency;
@class IronSubmission;

/* A call that uses the device and is no command buffer: it makes a buffer, or copies between a buffer and the host's
 * memory. A close waits for it as it waits for what is in flight. Lies on the call's stack, listed with the device,
 * guarded by the monitor. */
typedef struct IronVisit {
  IronDevice *device; /* nil: not begun */
  uint64_t serial;    /* grows from visit to visit */
  struct IronVisit *next, *previous;
} IronVisit;

/* Commands that are open at once, each with a command buffer that is not committed. */
enum {
  IRON_OPEN_COMMAND_BUFFERS = 64,
  /* The same, and those in flight, on a queue of the caller's, which has 64 in all by default. */
  IRON_OPEN_ON_FOREIGN_QUEUE = 32,
  IRON_IN_FLIGHT_ON_FOREIGN_QUEUE = 16
};

/* What Metal has no words for. NULL: the device cannot. Apple's devices can do nothing of it. */
typedef struct IronExtras {
  /* Commits, for a caller who calls `run` next: no thread is woken. */
  void (*commit_without_waking)(id<MTLCommandBuffer> commands);
  /* Executes a committed command buffer, and what is before it, on the calling thread, as far as that goes. */
  void (*run)(id<MTLCommandBuffer> commands);
  /* Nanoseconds for which a thread that waits for `metal` may spin now before it sleeps. */
  uint64_t (*wait_budget)(const void *metal);
  /* How many cores hold several threadgroups each; 0: kernels are not executed so. */
  uint32_t (*cores)(const void *metal);
  /* After memory was refused: whether the device is lost, and why, in *text from malloc, which may be NULL. Without
   * it, there is no memory. */
  bool (*is_lost)(id<MTLDevice> metal, char **text);
  /* For a buffer that is about to be written as a whole and will be read often. */
  void (*expect_reads)(id<MTLBuffer> buffer);
  /* Memory for weights (+1), nil: there is none, and its rows, in a layout that the device picks. A reader or writer
   * says why in *text, from malloc, on anything but IRON_OK. Without these, rows lie as the caller has them. */
  id<MTLBuffer> (*new_weights)(id<MTLDevice> metal, uint64_t length);
  iron_status (*write_weights)(id<MTLBuffer> buffer, const IronWeights *matrix, uint64_t first, uint64_t count,
                               const void *rows, char **text);
  iron_status (*read_weights)(id<MTLBuffer> buffer, const IronWeights *matrix, uint64_t first, uint64_t count,
                              void *rows, char **text);
  /* The threads that compute. *text, from malloc, says why on anything but IRON_OK. */
  uint32_t (*threads)(void);
  iron_status (*set_threads)(uint32_t threads, char **text);
  iron_status (*pin_threads)(const uint32_t *processors, size_t count, char **text);
} IronExtras;

/* Cores from which on a kernel is chosen that gives each a part of one row. A GPU of fewer is filled by a row of
 * threads for each of its columns. */
enum { IRON_MANY_CORES = 64 };

@interface IronDevice : IronObject {
 @public
  id<MTLDevice> metal;
  id<MTLCommandQueue> queue;
  IronPipelines *pipelines;
  IronResidency *residency; /* nil: the device has no residency sets */
  const IronExtras *extras; /* never NULL */
  iron_device_kind kind;
  uint32_t index;
  uint32_t cores; /* 0: unknown, or none that hold several threadgroups each */
  uint32_t max_operations, max_in_flight;
  uint32_t max_open; /* command buffers that are recorded at once */
  uint64_t max_flush_bytes;
  uint64_t opened;         /* IronNow when it was */
  _Atomic(uint64_t) usual_scratch; /* bytes that the last commands needed, those apart that needed far less */
  _Atomic(uint64_t) worked; /* nanoseconds, where what overlaps counts once; changes with the monitor held */
  _Atomic(bool) closed;    /* nothing is made or used any more, only given back; changes with the monitor held */
  _Atomic(bool) capturing; /* a capture of the queue is under way, and ends with the device */
  _Atomic(bool) inherited; /* from the process that forked this one: closed, and not even given back */
  IronDevice *next_open, *previous_open; /* among the process's open devices, guarded by the registry */
  bool listed;
  uint32_t visitors; /* who look at it without a reference, guarded by the registry */

  /* Held from the serial number's making to the commit, so that serial order is the device's order. Taken before
   * `monitor`. */
  pthread_mutex_t commit_order;
  /* Held by the one copy between host and private memory that is under way. Taken before everything else. */
  pthread_mutex_t transfer;

  /* Guards all that follows, the hazards of the device's buffers, and what became of its submissions. */
  IronMonitor monitor;
  IronSubmission *first_in_flight, *last_in_flight; /* by serial; each is retained while it is listed */
  uint64_t last_serial;
  IronVisit *first_visit, *last_visit; /* by serial */
  uint64_t last_visit_serial;
  uint32_t closers; /* threads that wait for visits to end */
  uint32_t open;      /* command buffers made and not yet committed */
  uint32_t in_flight; /* submitted, or about to be, and not complete */
  uint64_t worked_until; /* the latest end of a submission */
  IronMemory memory;
  IronPool pool;
  uint64_t last_beat; /* IronNow, when residency was requested last */
  bool reaping; /* the reaper changes the state of idle buffers, or gives back what it took out of the accounts */
  IronBuffer *newest_buffer; /* of the ledger, by `older`; none is retained */
  IronFailures failures; /* whose commands were released without a wait */
}
@end

/* Takes over `metal`, with `queue` or, where that is nil, one of its own; `options` are complete and checked.
 * Autoreleased; nil, with the error reported, when it has no queue. */
IronDevice *IronDeviceMake(id<MTLDevice> metal, id<MTLCommandQueue> queue, const IronExtras *extras,
                           iron_device_kind kind, uint32_t index, const iron_device_options *options);

/* The device of a handle, as IronHandleAcquire. */
IronDevice *IronDeviceAcquire(iron_device *handle);

/* Refuses what would use a closed device. `argument` names the handle that leads there. */
iron_status IronDeviceCheckOpen(IronDevice *device, const char *argument);
/* Waits for what is in flight now; false when `timeout` passes first. */
bool IronDeviceSettle(IronDevice *device, uint64_t timeout);
/* Closes the device for everybody, at once; false when it is closed already. */
bool IronDeviceClose(IronDevice *device);
/* Waits for what is in flight, and for the visits, of now, closes the device for everybody, and waits for what came in
 * between. IRON_ERROR_TIMEOUT: the device is still open; IRON_ERROR_INVALID_HANDLE: another thread closed it. */
iron_status IronDeviceFinish(IronDevice *device, uint64_t timeout);

/* Locks the monitor when the reaper is not at the pool, so that idle buffers can be taken out. */
void IronDeviceLockPool(IronDevice *device);

/* Whether the device is a parent process's. Its threads are not here and its locks may be held for ever: nothing waits
 * for it, and what belongs to it stays where it is until this process ends. */
bool IronDeviceIsInherited(IronDevice *device);

/* Begins a visit, of this function or to the end of the block; leaves the function when the device is closed.
 * `argument` names the handle that leads there. */
#define IRON_VISIT(device, argument)                          \
  __attribute__((cleanup(IronVisitEnd))) IronVisit visit = {}; \
  IRON_TRY(IronVisitBegin(&visit, device, argument))
iron_status IronVisitBegin(IronVisit *visit, IronDevice *device, const char *argument);
void IronVisitEnd(IronVisit *visit);
/* These are with the monitor held, and the former on an open device. */
void IronVisitEnlist(IronVisit *visit, IronDevice *device);
void IronVisitDelist(IronVisit *visit);

/* Describes a Metal device, opened or not. */
void IronDeviceDescribe(iron_device_info *info, id<MTLDevice> metal, iron_device_kind kind, uint32_t index);

#endif
