/* Copies between host memory and a private buffer, through a shared staging buffer from the pool. */
#ifndef IRON_BRIDGE_TRANSFER_H
#define IRON_BRIDGE_TRANSFER_H

#import "buffer.h"

iron_status IronTransferOut(IronBuffer *buffer, uint64_t offset, void *bytes, uint64_t length);
iron_status IronTransferIn(IronBuffer *buffer, uint64_t offset, const void *bytes, uint64_t length);

#endif
