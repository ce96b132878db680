/* What the runtime can say about objects that were autoreleased. -1 where it cannot tell (Apple's). */
#ifndef IRON_BRIDGE_DIAGNOSTICS_H
#define IRON_BRIDGE_DIAGNOSTICS_H

#include <stdint.h>

/* Those that wait in the calling thread's pools. */
int64_t IronAutoreleased(void);
/* Those that no pool took, since the start. */
int64_t IronAutoreleasedWithoutPool(void);

#endif
