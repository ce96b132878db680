#ifndef SOFTMETAL_MTL_EVENT_H
#define SOFTMETAL_MTL_EVENT_H

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLDevice;
@protocol MTLSharedEvent;

MTL_PROTOCOL
@protocol MTLEvent <NSObject>
@property (nullable, readonly) id<MTLDevice> device;
@property (nullable, copy, atomic) NSString *label;
@end

/* Blocks run on the thread that signals. Apple's listeners may have a dispatch queue for them instead. */
@interface MTLSharedEventListener : NSObject
@end

typedef void (^MTLSharedEventNotificationBlock)(id<MTLSharedEvent>, uint64_t value);

MTL_PROTOCOL
@protocol MTLSharedEvent <MTLEvent>
- (void)notifyListener:(MTLSharedEventListener *)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block;
- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds;
/* It never decreases: a smaller value changes nothing. */
@property (readwrite) uint64_t signaledValue;
@end

NS_ASSUME_NONNULL_END
#endif
