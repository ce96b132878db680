#ifndef SOFTMETAL_MTL_RESIDENCY_SET_H
#define SOFTMETAL_MTL_RESIDENCY_SET_H

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLDevice;

/* What a residency set can hold: here buffers alone. */
MTL_PROTOCOL
@protocol MTLAllocation <NSObject>
@property (readonly) NSUInteger allocatedSize;
@end

@interface MTLResidencySetDescriptor : NSObject <NSCopying> {
@private
  NSString *_label;
  NSUInteger _initialCapacity;
}
@property (nullable, copy, nonatomic) NSString *label;
@property (readwrite, nonatomic) NSUInteger initialCapacity;
@end

MTL_PROTOCOL
@protocol MTLResidencySet <NSObject>
@property (readonly) id<MTLDevice> device;
@property (nullable, readonly) NSString *label;
@property (readonly) uint64_t allocatedSize;
@property (readonly) NSUInteger allocationCount;
- (void)requestResidency;
- (void)endResidency;
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllAllocations;
- (BOOL)containsAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
@end

NS_ASSUME_NONNULL_END
#endif
