/* The stack of a thread that is not the device's own. */
#ifndef SOFT_STACK_H
#define SOFT_STACK_H

#include <stdbool.h>

/* Whether the calling thread is on a stack that the system gave it, with room for any kernel of the executor: 512 KiB.
 * The kernels' tests pass with half of that. */
bool soft_stack_has_room(void);

#endif
