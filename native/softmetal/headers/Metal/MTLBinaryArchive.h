#ifndef SOFTMETAL_MTL_BINARY_ARCHIVE_H
#define SOFTMETAL_MTL_BINARY_ARCHIVE_H

#import <Metal/MTLComputePipeline.h>
#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

MTL_EXTERN NSErrorDomain const MTLBinaryArchiveDomain;

typedef NS_ENUM(NSUInteger, MTLBinaryArchiveError) {
  MTLBinaryArchiveErrorNone = 0,
  MTLBinaryArchiveErrorInvalidFile = 1,
  MTLBinaryArchiveErrorUnexpectedElement = 2,
  MTLBinaryArchiveErrorCompilationFailure = 3,
};

@interface MTLBinaryArchiveDescriptor : NSObject <NSCopying> {
@private
  NSURL *_url;
}
@property (nullable, copy, nonatomic) NSURL *url;
@end

MTL_PROTOCOL
@protocol MTLBinaryArchive <NSObject>
@property (readonly) id<MTLDevice> device;
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                            error:(NSError *_Nullable *_Nullable)error;
- (BOOL)serializeToURL:(NSURL *)url error:(NSError *_Nullable *_Nullable)error;
@end

NS_ASSUME_NONNULL_END
#endif
