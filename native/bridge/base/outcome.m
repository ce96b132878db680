#import "outcome.h"

@implementation IronOutcome

IRON_COUNTED(IronOutcome)

@end
