/* How many locks of ours the calling thread holds: what checks the rules of native/bridge/base/monitor.h and
 * native/softmetal/SoftLock.h. Builds with debug assertions count (build.rs defines IRON_CHECK_LOCKS), others do not.
 * Used by the bridge and the software device alike; knows neither. */
#ifndef IRON_HELD_LOCKS_H
#define IRON_HELD_LOCKS_H

#ifdef __cplusplus
extern "C" {
#endif

#ifdef IRON_CHECK_LOCKS
void held_locks_add(void);
void held_locks_remove(void);
/* Ends the process, with a sentence that names `where`, when the calling thread holds a lock. */
void held_locks_expect_none(const char *where);
#else
static inline void held_locks_add(void) {}
static inline void held_locks_remove(void) {}
static inline void held_locks_expect_none(const char *where) { (void)where; }
#endif

#ifdef __cplusplus
}
#endif
#endif
