#import "outcome.h"

#include <stdlib.h>

@implementation IronOutcome

IRON_COUNTED(IronOutcome)

- (void)dealloc {
  free(times);
  [super dealloc];
}

- (bool)reserve {
  if (command_buffers < times_capacity) return true;
  uint32_t capacity = 2 * times_capacity + 4;
  IronSubmissionTimes *larger = realloc(times, capacity * sizeof *larger);
  if (!larger) return false;
  times = larger;
  times_capacity = capacity;
  return true;
}

@end
