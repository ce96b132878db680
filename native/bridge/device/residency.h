/* Weights and KV caches stay resident: a GPU's memory that no command buffer has used for a second is unwired, and the
 * next command buffer pays for wiring all of it again (ggml's issues 10119 and 11427 have the figures).
 *
 * From macOS 15 on there are residency sets for it. A device has one, with the buffers of weights and KV caches, as far
 * as they fit the working set. While a KV cache lives, somebody is going to ask for another token, and the reaper
 * requests the set's residency again. Older systems and devices without residency sets have none, and nothing else
 * changes. */
#ifndef IRON_BRIDGE_RESIDENCY_H
#define IRON_BRIDGE_RESIDENCY_H

#import <Metal/Metal.h>
#include <pthread.h>

#import "base/object.h"

@class IronBuffer;
@class IronDevice;

@interface IronResidency : IronObject {
 @private
  pthread_mutex_t gate; /* lets through one change of the set */
  id set;               /* an MTLResidencySet (+1) */
  id<MTLCommandQueue> queue; /* not retained: the device's */
  uint64_t bytes, most;
  bool requested; /* since the set had something in it */
}

/* Nil, and nothing is reported, where there are none. */
- (instancetype)initWithMetal:(id<MTLDevice>)metal queue:(id<MTLCommandQueue>)queue;
/* Whether the buffer is in the set now; then it is taken out before it is released. Neither of these raises. */
- (bool)add:(id<MTLBuffer>)metal;
- (void)remove:(id<MTLBuffer>)metal;
/* Asks for it again; `metal` is for the debug lines. Does not raise. */
- (void)request:(id<MTLDevice>)metal;

@end

/* For a buffer that has just got its memory, or is about to lose it. */
void IronResidencyJoin(IronBuffer *buffer);
void IronResidencyLeave(IronBuffer *buffer);

/* When the reaper asks again, monitor held; UINT64_MAX: not. */
uint64_t IronResidencyNextBeat(const IronDevice *device);
/* Does so when it is due at `now`. Called by the reaper alone, without the monitor. */
void IronResidencyBeat(IronDevice *device, uint64_t now);

#endif
