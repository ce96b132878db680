/* What became of the submissions of one iron_commands. Shared by the commands, which ask, and the submissions, which
 * answer, so that either may go first. Guarded by the device's monitor. */
#ifndef IRON_BRIDGE_OUTCOME_H
#define IRON_BRIDGE_OUTCOME_H

#include "failure.h"
#import "object.h"

/* When the device executed a submission, in nanoseconds of the clock of Metal's GPUStartTime; 0: it did not. */
typedef struct IronSubmissionTimes {
  uint64_t start, end;
  uint32_t operations;
  iron_status status;
  bool complete;
} IronSubmissionTimes;

@interface IronOutcome : IronObject {
 @public
  uint32_t command_buffers; /* submitted */
  uint32_t incomplete;      /* of those */
  uint64_t device_time;     /* nanoseconds, of the complete ones */
  IronFailure failure;      /* the first one; IRON_OK: none */
  bool told;                /* the failure has been reported */
  IronSubmissionTimes *times; /* from malloc: of each that was submitted, and of the one that is open */
  uint32_t times_capacity;
  bool abandoned;           /* the commands are gone: failures go to the device */
}
/* Room for one more submission; false: there is no memory. */
- (bool)reserve;
@end

#endif
