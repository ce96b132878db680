/* What a capture of a queue hears of its command buffers (MTLCaptureManager.h). */
#ifndef METAL_CAPTURE_H
#define METAL_CAPTURE_H

#import <Metal/Metal.h>

#ifndef __APPLE__
/* A command buffer of the queue is complete. */
void metal_capture_note(id queue, id<MTLCommandBuffer> commands);
#else
static inline void metal_capture_note(id queue, id<MTLCommandBuffer> commands) { (void)queue, (void)commands; }
#endif

#endif
