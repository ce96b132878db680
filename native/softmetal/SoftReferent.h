/* What a command refers to: the inner part of a buffer or a pipeline, which commands keep alive by themselves.
 *
 * The public object owns it. A command buffer with retained references keeps the public object too; one without keeps
 * only this part, so that a program that lets the object go too early is told so
 * (MTLCommandBufferErrorInvalidResource) where Apple's device would read freed memory. */
#ifndef SOFT_REFERENT_H
#define SOFT_REFERENT_H

#import "SoftObject.h"
#include "SoftUses.h"

#include <pthread.h>

@interface SoftReferent : SoftObject {
@protected
  pthread_mutex_t _lock;
  soft_uses *_uses; /* changed up with `_lock` held */
@package
  /* The number of the command buffer that last put this among what it uses: a short way to know that it is there
   * already. 0: none. Several may record at once; then the number is another's and the set is asked. */
  _Atomic(uint64_t) _lastNamedBy;
@private
  BOOL _abandoned;
  NSString *_name;
}
/* From commit to completion of a command buffer. `beginUse` returns why the object cannot be used now, or nil. */
- (NSString *)beginUse;
- (void)endUse;
/* For whoever ends the use when this may be gone. */
- (soft_uses *)uses;
/* The owner is being destroyed; `name` (may be nil) is what the user called it. */
- (void)abandonAs:(NSString *)name;
/* How an error names the thing (autoreleased) when the owner is gone, else nil. */
- (NSString *)abandoned;
/* "buffer", "pipeline". */
- (NSString *)kind;
@end

#endif
