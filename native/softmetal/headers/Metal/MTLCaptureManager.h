#ifndef SOFTMETAL_MTL_CAPTURE_MANAGER_H
#define SOFTMETAL_MTL_CAPTURE_MANAGER_H

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

MTL_EXTERN NSErrorDomain const MTLCaptureErrorDomain;

typedef NS_ENUM(NSInteger, MTLCaptureError) {
  MTLCaptureErrorNotSupported = 1,
  MTLCaptureErrorAlreadyCapturing = 2,
  MTLCaptureErrorInvalidDescriptor = 3,
};

typedef NS_ENUM(NSInteger, MTLCaptureDestination) {
  MTLCaptureDestinationDeveloperTools = 1,
  MTLCaptureDestinationGPUTraceDocument = 2,
};

@interface MTLCaptureDescriptor : NSObject {
@private
  id _captureObject;
  MTLCaptureDestination _destination;
  NSURL *_outputURL;
}
@property (nonatomic, strong, nullable) id captureObject;
@property (nonatomic, assign) MTLCaptureDestination destination;
@property (nonatomic, copy, nullable) NSURL *outputURL;
@end

/* Where Apple's writes a trace for Xcode, this one writes a text with a line for each command buffer that the captured
 * queue completes: its label, its status and its times. As there, only with MTL_CAPTURE_ENABLED=1. */
@interface MTLCaptureManager : NSObject
@property (readonly) BOOL isCapturing;
+ (MTLCaptureManager *)sharedCaptureManager;
- (BOOL)supportsDestination:(MTLCaptureDestination)destination;
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor *)descriptor error:(NSError *_Nullable *_Nullable)error;
- (void)stopCapture;
@end

NS_ASSUME_NONNULL_END
#endif
