/* fork(): what the child of a process with open devices starts with.
 *
 * A child has one thread. The inherited devices' threads are not there, a lock that another thread of the parent's held
 * is held for ever, and the memory is a copy that no device sees. So an inherited device is closed for the child:
 * whatever it is asked for fails at once, and its handles can be given back, which gives nothing else back. Devices
 * that the child opens are its own in every way. */
#ifndef IRON_BRIDGE_FORKED_H
#define IRON_BRIDGE_FORKED_H

/* Called before the first device is opened. */
void IronForkWatch(void);

#endif
