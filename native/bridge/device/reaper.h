/* Makes idle memory Volatile or Empty, gives what was idle for too long back to the system although nobody calls, and
 * writes published figures that wait: a thread that exists while there is some of it. */
#ifndef IRON_BRIDGE_REAPER_H
#define IRON_BRIDGE_REAPER_H

#include <stdbool.h>
#include <stdint.h>

/* Some device has memory to be seen to at that moment (IronNow), or later, or figures that are then to be written.
 * False when there is no thread to see to it. Cheap; the caller may hold a device's monitor, and no other lock. */
bool IronReaperExpect(uint64_t expiry);

/* In the child of a fork: there is no such thread. */
void IronReaperForget(void);

#endif
