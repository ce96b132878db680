/* The live buffers of a device, each with what is needed to name it. Idle ones of the pool are not among them. */
#ifndef IRON_BRIDGE_LEDGER_H
#define IRON_BRIDGE_LEDGER_H

#import "buffer.h"
#import "device.h"

/* Monitor held. */
void IronLedgerAdd(IronBuffer *buffer);
void IronLedgerRemove(IronBuffer *buffer);

/* A copy of the ledger at one moment. */
typedef struct IronListing {
  iron_allocation *allocations; /* the largest first */
  uint64_t count, bytes;
} IronListing;

/* False, and an empty listing, when there is no memory for it. */
bool IronLedgerList(IronDevice *device, IronListing *listing);
void IronListingFree(IronListing *listing);

/* Gives the memory of every buffer that nothing uses back to the system, its contents are gone. The device is closed,
 * so that nobody will look for them. */
void IronLedgerPurge(IronDevice *device);

#endif
