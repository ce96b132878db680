/* Metal's parts that are classes and constants rather than protocols, for hosts where no Metal.framework has them. */
#ifndef __APPLE__

#import <Metal/Metal.h>

#include "live_objects.h"

#include <float.h>

NSErrorDomain const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";
NSErrorDomain const MTLBinaryArchiveDomain = @"MTLBinaryArchiveDomain";
NSErrorDomain const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";

static live_objects_class counted = {.name = "MTLCompileOptions"};

@implementation MTLCompileOptions

@synthesize preprocessorMacros = _preprocessorMacros;
@synthesize fastMathEnabled = _fastMathEnabled;
@synthesize mathMode = _mathMode;
@synthesize languageVersion = _languageVersion;

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  _fastMathEnabled = YES;
  _mathMode = MTLMathModeFast;
  _languageVersion = MTLLanguageVersion3_1; /* the newest that the software device knows */
  live_objects_add(&counted);
  return self;
}

- (void)dealloc {
  [_preprocessorMacros release];
  live_objects_remove(&counted);
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLCompileOptions *copy = [[[self class] allocWithZone:zone] init];
  copy.preprocessorMacros = _preprocessorMacros;
  copy.fastMathEnabled = _fastMathEnabled;
  copy.mathMode = _mathMode;
  copy.languageVersion = _languageVersion;
  return copy;
}

@end

@implementation MTLComputePipelineDescriptor

@synthesize label = _label;
@synthesize computeFunction = _computeFunction;
@synthesize binaryArchives = _binaryArchives;

- (void)dealloc {
  [_label release];
  [_computeFunction release];
  [_binaryArchives release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLComputePipelineDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.label = _label;
  copy.computeFunction = _computeFunction;
  copy.binaryArchives = _binaryArchives;
  return copy;
}

@end

@implementation MTLBinaryArchiveDescriptor

@synthesize url = _url;

- (void)dealloc {
  [_url release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLBinaryArchiveDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.url = _url;
  return copy;
}

@end

@implementation MTLResidencySetDescriptor

@synthesize label = _label;
@synthesize initialCapacity = _initialCapacity;

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLResidencySetDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.label = _label;
  copy.initialCapacity = _initialCapacity;
  return copy;
}

@end

/* The property of a descriptor that is a part of its resourceOptions. */
#define OPTION(type, name, setter, part)                                                        \
  -(type)name {                                                                                 \
    return (_resourceOptions & MTLResource##part##Mask) >> MTLResource##part##Shift;            \
  }                                                                                             \
  -(void)setter : (type)value {                                                                 \
    _resourceOptions = (_resourceOptions & ~MTLResource##part##Mask) |                          \
                       ((value << MTLResource##part##Shift) & MTLResource##part##Mask);         \
  }

@implementation MTLHeapDescriptor

@synthesize size = _size;
@synthesize resourceOptions = _resourceOptions;
@synthesize type = _type;

- (instancetype)init {
  self = [super init];
  if (self) _resourceOptions = MTLResourceStorageModePrivate;
  return self;
}

- (id)copyWithZone:(NSZone *)zone {
  MTLHeapDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.size = _size;
  copy.resourceOptions = _resourceOptions;
  copy.type = _type;
  return copy;
}

OPTION(MTLCPUCacheMode, cpuCacheMode, setCpuCacheMode, CPUCacheMode)
OPTION(MTLStorageMode, storageMode, setStorageMode, StorageMode)
OPTION(MTLHazardTrackingMode, hazardTrackingMode, setHazardTrackingMode, HazardTrackingMode)

@end

@implementation MTLTextureDescriptor

@synthesize textureType = _textureType;
@synthesize pixelFormat = _pixelFormat;
@synthesize width = _width;
@synthesize height = _height;
@synthesize depth = _depth;
@synthesize mipmapLevelCount = _mipmapLevelCount;
@synthesize sampleCount = _sampleCount;
@synthesize arrayLength = _arrayLength;
@synthesize resourceOptions = _resourceOptions;
@synthesize usage = _usage;

+ (MTLTextureDescriptor *)texture2DDescriptorWithPixelFormat:(MTLPixelFormat)pixelFormat
                                                       width:(NSUInteger)width
                                                      height:(NSUInteger)height
                                                   mipmapped:(BOOL)mipmapped {
  MTLTextureDescriptor *made = [[[self alloc] init] autorelease];
  made.pixelFormat = pixelFormat;
  made.width = width;
  made.height = height;
  NSUInteger extent = width > height ? width : height;
  while (mipmapped && (extent >>= 1)) made.mipmapLevelCount++;
  return made;
}

+ (MTLTextureDescriptor *)textureCubeDescriptorWithPixelFormat:(MTLPixelFormat)pixelFormat
                                                          size:(NSUInteger)size
                                                     mipmapped:(BOOL)mipmapped {
  MTLTextureDescriptor *made = [self texture2DDescriptorWithPixelFormat:pixelFormat
                                                                  width:size
                                                                 height:size
                                                              mipmapped:mipmapped];
  made.textureType = MTLTextureTypeCube;
  return made;
}

+ (MTLTextureDescriptor *)textureBufferDescriptorWithPixelFormat:(MTLPixelFormat)pixelFormat
                                                           width:(NSUInteger)width
                                                 resourceOptions:(MTLResourceOptions)resourceOptions
                                                           usage:(MTLTextureUsage)usage {
  MTLTextureDescriptor *made = [[[self alloc] init] autorelease];
  made.textureType = MTLTextureTypeTextureBuffer;
  made.pixelFormat = pixelFormat;
  made.width = width;
  made.resourceOptions = resourceOptions;
  made.usage = usage;
  return made;
}

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  _textureType = MTLTextureType2D;
  _pixelFormat = MTLPixelFormatRGBA8Unorm;
  _width = _height = _depth = _mipmapLevelCount = _sampleCount = _arrayLength = 1;
  _usage = MTLTextureUsageShaderRead;
  return self;
}

- (id)copyWithZone:(NSZone *)zone {
  MTLTextureDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.textureType = _textureType;
  copy.pixelFormat = _pixelFormat;
  copy.width = _width;
  copy.height = _height;
  copy.depth = _depth;
  copy.mipmapLevelCount = _mipmapLevelCount;
  copy.sampleCount = _sampleCount;
  copy.arrayLength = _arrayLength;
  copy.resourceOptions = _resourceOptions;
  copy.usage = _usage;
  return copy;
}

OPTION(MTLCPUCacheMode, cpuCacheMode, setCpuCacheMode, CPUCacheMode)
OPTION(MTLStorageMode, storageMode, setStorageMode, StorageMode)
OPTION(MTLHazardTrackingMode, hazardTrackingMode, setHazardTrackingMode, HazardTrackingMode)

@end

@implementation MTLSamplerDescriptor

@synthesize minFilter = _minFilter;
@synthesize magFilter = _magFilter;
@synthesize mipFilter = _mipFilter;
@synthesize maxAnisotropy = _maxAnisotropy;
@synthesize sAddressMode = _sAddressMode;
@synthesize tAddressMode = _tAddressMode;
@synthesize rAddressMode = _rAddressMode;
@synthesize borderColor = _borderColor;
@synthesize normalizedCoordinates = _normalizedCoordinates;
@synthesize lodMinClamp = _lodMinClamp;
@synthesize lodMaxClamp = _lodMaxClamp;
@synthesize compareFunction = _compareFunction;
@synthesize supportArgumentBuffers = _supportArgumentBuffers;
@synthesize label = _label;

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  _maxAnisotropy = 1;
  _normalizedCoordinates = YES;
  _lodMaxClamp = FLT_MAX;
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLSamplerDescriptor *copy = [[[self class] allocWithZone:zone] init];
  copy.minFilter = _minFilter;
  copy.magFilter = _magFilter;
  copy.mipFilter = _mipFilter;
  copy.maxAnisotropy = _maxAnisotropy;
  copy.sAddressMode = _sAddressMode;
  copy.tAddressMode = _tAddressMode;
  copy.rAddressMode = _rAddressMode;
  copy.borderColor = _borderColor;
  copy.normalizedCoordinates = _normalizedCoordinates;
  copy.lodMinClamp = _lodMinClamp;
  copy.lodMaxClamp = _lodMaxClamp;
  copy.compareFunction = _compareFunction;
  copy.supportArgumentBuffers = _supportArgumentBuffers;
  copy.label = _label;
  return copy;
}

@end

@implementation MTLSharedEventListener

@end

#endif
