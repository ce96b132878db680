/* id<MTLBlitCommandEncoder>. */
#ifndef SOFT_BLIT_ENCODER_H
#define SOFT_BLIT_ENCODER_H

#import "SoftEncoder.h"

@interface SoftBlitEncoder : SoftEncoder <MTLBlitCommandEncoder>
@end

#endif
