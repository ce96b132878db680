/* How every C function of the header begins and ends: with a pool of its own and every Objective-C exception caught.
 *
 *   iron_status iron_noun_verb(iron_noun *handle) {
 *     IRON_ENTRY {
 *       IRON_TRY(Something(handle));
 *       return IRON_OK;
 *     } IRON_LEAVE
 *   }
 *
 * The pool is lexical: opened and closed by one function on one thread, on every way out, and never stored. What
 * outlives the call is retained before the pool drains. An exception is caught inside the pool, which drains after it
 * as well. */
#ifndef IRON_BRIDGE_ENTRY_H
#define IRON_BRIDGE_ENTRY_H

#import <Foundation/Foundation.h>

#include "error.h"
#import "foundation.h"
#include "ironbridge.h"
#include "schedule.h"

/* The leak detector's own test builds the bridge without its pools and must then fail. */
#ifdef IRON_TEST_WITHOUT_POOLS
#define IRON_POOL
#else
#define IRON_POOL @autoreleasepool
#endif

/* Hand-overs between the caller and the bridge: before the function begins, and when its pool has drained. */
static inline bool IronEntryBegin(void) {
  soft_schedule_point();
  return true;
}
static inline void IronEntryEnd(bool *begun) {
  (void)begun;
  soft_schedule_point();
}

/* clang 14 takes a variable with a cleanup for unused. */
#define IRON_ENTRY                                                               \
  __attribute__((unused, cleanup(IronEntryEnd))) bool begun = IronEntryBegin(); \
  IronFoundationPrepare();                                                       \
  IronErrorEnter(__func__);                                                      \
  IRON_POOL {                                                                    \
    @try

#define IRON_LEAVE                  \
    @catch (id raised) {            \
      return IronErrorCaught(raised); \
    }                               \
  }

/* Leaves the function with the status of what failed. */
#define IRON_TRY(expression)                        \
  do {                                              \
    iron_status status_of_try = (expression);       \
    if (status_of_try != IRON_OK) return status_of_try; \
  } while (0)

#endif
