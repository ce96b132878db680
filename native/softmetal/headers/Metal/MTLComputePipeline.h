#ifndef SOFTMETAL_MTL_COMPUTE_PIPELINE_H
#define SOFTMETAL_MTL_COMPUTE_PIPELINE_H

#import <Metal/MTLArgument.h>
#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLDevice;

typedef NS_OPTIONS(NSUInteger, MTLPipelineOption) {
  MTLPipelineOptionNone = 0,
  MTLPipelineOptionArgumentInfo = 1 << 0,
  MTLPipelineOptionBufferTypeInfo = 1 << 1,
};

/* Made by a device alone. */
@interface MTLComputePipelineReflection : NSObject
@property (readonly) NSArray<id<MTLBinding>> *bindings;
@end

@protocol MTLBinaryArchive;
@protocol MTLFunction;

@interface MTLComputePipelineDescriptor : NSObject <NSCopying> {
@private
  NSString *_label;
  id<MTLFunction> _computeFunction;
  NSArray *_binaryArchives;
}
@property (nullable, copy, nonatomic) NSString *label;
@property (nullable, readwrite, nonatomic, strong) id<MTLFunction> computeFunction;
@property (nullable, readwrite, nonatomic, copy) NSArray<id<MTLBinaryArchive>> *binaryArchives;
@end

typedef MTLComputePipelineReflection *_Nullable MTLAutoreleasedComputePipelineReflection;

MTL_PROTOCOL
@protocol MTLComputePipelineState <NSObject>
@property (nullable, readonly) NSString *label;
@property (readonly) id<MTLDevice> device;
@property (readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property (readonly) NSUInteger threadExecutionWidth;
@property (readonly) NSUInteger staticThreadgroupMemoryLength;
@end

NS_ASSUME_NONNULL_END
#endif
