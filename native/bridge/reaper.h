/* Gives memory that was idle for too long back to the system although nobody calls: a thread that exists while there is some. */
#ifndef IRON_BRIDGE_REAPER_H
#define IRON_BRIDGE_REAPER_H

#include <stdint.h>

/* Some device has memory that expires at that moment (IronNow), or later. Cheap; called without any lock. */
void IronReaperExpect(uint64_t expiry);

/* In the child of a fork: there is no such thread. */
void IronReaperForget(void);

#endif
