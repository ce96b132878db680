/* Foundation's own first use, by one thread. */
#ifndef IRON_BRIDGE_FOUNDATION_H
#define IRON_BRIDGE_FOUNDATION_H

#import <Foundation/Foundation.h>

#ifdef GNUSTEP_BASE_LIBRARY
/* Before anything else of Foundation is used: GNUstep's caches are full when it returns. */
void IronFoundationPrepare(void);
#else
static inline void IronFoundationPrepare(void) {}
#endif

#endif
