/* A buffer: a Metal buffer, whose it is, and who uses it. */
#ifndef IRON_BRIDGE_BUFFER_H
#define IRON_BRIDGE_BUFFER_H

#import <Metal/Metal.h>

#import "device.h"
#include "hazard.h"
#include "ironbridge.h"
#include "base/location.h"
#import "base/object.h"
#include "weights.h"

@interface IronBuffer : IronObject {
 @public
  IronDevice *device;
  id<MTLBuffer> metal;
  IronIdleBuffer *pooled; /* owns `metal` and goes back to the pool; NULL: not a pooled buffer */
  uint64_t length;        /* what was asked for; `metal` may be longer */
  uint64_t bytes;         /* what is allocated */
  uint64_t rounding;      /* what the device adds to that */
  iron_storage storage;
  iron_category category;
  bool read_only;
  bool wrapped;           /* the caller's memory */
  bool resident;          /* in the device's residency set */
  IronWeightsTable *weights; /* what it holds, as a buffer of weights; NULL: it is none */
  IronLocation location;  /* where it was made */
  uint64_t born;          /* IronNow then */
  _Atomic(uintptr_t) ticket; /* its handle; 0: it has none (yet) */

  /* Guarded by the device's monitor. */
  IronBuffer *newer, *older; /* in the ledger */
  bool counted;              /* in the memory figures and the ledger */
  bool emptied;              /* purged as leaked: the contents are gone */
  char *label; /* malloc'ed; NULL: none */
  IronHazard hazard;
  const void *last_touch; /* where the submission that touched it last lists it: a hint, see submission.m */
  size_t last_touch_index;
}
@end

/* A new buffer, autoreleased. `options` are checked. nil, with the error reported, when there is no memory. */
IronBuffer *IronBufferMake(IronDevice *device, uint64_t length, const iron_buffer_options *options);

/* A handle for a Metal buffer of the caller's, which is retained. */
iron_status IronBufferWrapMetal(IronDevice *device, id<MTLBuffer> metal, const iron_buffer_options *options,
                                iron_buffer **handle);

/* The buffer of a handle, as IronHandleAcquire. */
IronBuffer *IronBufferAcquire(const iron_buffer *handle, const char *argument);

/* Checks that `length` > 0 bytes from `offset` lie in the buffer. */
iron_status IronBufferCheckRange(IronBuffer *buffer, uint64_t offset, uint64_t length, const char *argument);

/* Copies between host memory and a range of the buffer, which the caller has mapped. */
iron_status IronBufferCopyOut(IronBuffer *buffer, uint64_t offset, void *bytes, uint64_t length);
iron_status IronBufferCopyIn(IronBuffer *buffer, uint64_t offset, const void *bytes, uint64_t length);

#endif
