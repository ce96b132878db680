/* What became of the submissions of one iron_commands. Shared by the commands, which ask, and the submissions, which
 * answer, so that either may go first. Guarded by the device's monitor. */
#ifndef IRON_BRIDGE_OUTCOME_H
#define IRON_BRIDGE_OUTCOME_H

#include "failure.h"
#import "object.h"

@interface IronOutcome : IronObject {
 @public
  uint32_t command_buffers; /* submitted */
  uint32_t incomplete;      /* of those */
  uint64_t device_time;     /* nanoseconds, of the complete ones */
  IronFailure failure;      /* the first one; IRON_OK: none */
  bool told;                /* the failure has been reported */
  bool abandoned;           /* the commands are gone: failures go to the device */
}
@end

#endif
