/* Metal for hosts that have none: the part of Apple's API that ironbridge uses, with Apple's names, values and
 * nullability.
 *
 * What compiles against these headers compiles against Apple's, which declare more. Meanings are those of
 * https://developer.apple.com/documentation/metal; comments here only say what this implementation adds. */
#ifndef SOFTMETAL_METAL_H
#define SOFTMETAL_METAL_H

#ifdef __APPLE__
#error "These headers stand in for Apple's where there are none; on a Mac, Metal.framework has the real ones."
#endif

#import <Metal/MTLArgument.h>
#import <Metal/MTLBinaryArchive.h>
#import <Metal/MTLBlitCommandEncoder.h>
#import <Metal/MTLBuffer.h>
#import <Metal/MTLCaptureManager.h>
#import <Metal/MTLCommandBuffer.h>
#import <Metal/MTLCommandEncoder.h>
#import <Metal/MTLCommandQueue.h>
#import <Metal/MTLComputeCommandEncoder.h>
#import <Metal/MTLComputePipeline.h>
#import <Metal/MTLDevice.h>
#import <Metal/MTLEvent.h>
#import <Metal/MTLFence.h>
#import <Metal/MTLFunctionConstantValues.h>
#import <Metal/MTLHeap.h>
#import <Metal/MTLLibrary.h>
#import <Metal/MTLPixelFormat.h>
#import <Metal/MTLResidencySet.h>
#import <Metal/MTLResource.h>
#import <Metal/MTLSampler.h>
#import <Metal/MTLTexture.h>
#import <Metal/MTLTypes.h>

#endif
