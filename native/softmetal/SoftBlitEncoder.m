#import "SoftBlitEncoder.h"

#import "SoftBuffer.h"
#import "SoftValidation.h"

#include <inttypes.h>

/* macOS copies and fills in units of four bytes (documentation of both methods). */
static const NSUInteger unit = 4;

@implementation SoftBlitEncoder

SOFT_COUNTED(SoftBlitEncoder)

- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  [self requireOpen:_cmd];
  SoftBuffer *source = soft_require_buffer(self, _cmd, @"sourceBuffer", sourceBuffer, [self softDevice]);
  SoftBuffer *destination = soft_require_buffer(self, _cmd, @"destinationBuffer", destinationBuffer, [self softDevice]);
  soft_require_range(self, _cmd, @"the source", sourceOffset, size, source.length);
  soft_require_range(self, _cmd, @"the destination", destinationOffset, size, destination.length);
  SOFT_REQUIRE(sourceOffset % unit == 0, @"sourceOffset (%" PRIu64 ") is not a multiple of 4", (uint64_t)sourceOffset);
  SOFT_REQUIRE(destinationOffset % unit == 0, @"destinationOffset (%" PRIu64 ") is not a multiple of 4",
               (uint64_t)destinationOffset);
  SOFT_REQUIRE(size % unit == 0, @"size (%" PRIu64 ") is not a multiple of 4", (uint64_t)size);
  NSUInteger distance =
      sourceOffset > destinationOffset ? sourceOffset - destinationOffset : destinationOffset - sourceOffset;
  SOFT_REQUIRE(source != destination || distance >= size, @"the source and the destination overlap in %@", source);
  [_commandBuffer useBuffer:source];
  [_commandBuffer useBuffer:destination];
  soft_command *command = [_commandBuffer addCommandFor:_cmd];
  command->kind = SOFT_COPY;
  command->copy = (soft_copy){.source = [[source storage] buffer],
                              .destination = [[destination storage] buffer],
                              .source_offset = sourceOffset,
                              .destination_offset = destinationOffset,
                              .length = size};
}

- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  [self requireOpen:_cmd];
  SoftBuffer *filled = soft_require_buffer(self, _cmd, @"buffer", buffer, [self softDevice]);
  soft_require_range(self, _cmd, @"range", range.location, range.length, filled.length);
  SOFT_REQUIRE(range.location % unit == 0, @"range.location (%" PRIu64 ") is not a multiple of 4",
               (uint64_t)range.location);
  SOFT_REQUIRE(range.length % unit == 0, @"range.length (%" PRIu64 ") is not a multiple of 4", (uint64_t)range.length);
  [_commandBuffer useBuffer:filled];
  soft_command *command = [_commandBuffer addCommandFor:_cmd];
  command->kind = SOFT_FILL;
  command->fill = (soft_fill){.destination = [[filled storage] buffer],
                              .offset = range.location,
                              .length = range.length,
                              .value = value};
}

- (void)synchronizeResource:(id<MTLResource>)resource {
  [self requireOpen:_cmd];
  SoftBuffer *buffer = soft_require_buffer(self, _cmd, @"resource", resource, [self softDevice]);
  SOFT_REQUIRE(buffer.storageMode == MTLStorageModeManaged, @"resource (%@) is not of managed storage", buffer);
  [_commandBuffer useBuffer:buffer];
}

@end
