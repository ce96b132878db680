/* Metal's parts that are classes and constants rather than protocols, for hosts where no Metal.framework has them. */
#ifndef __APPLE__

#import <Metal/Metal.h>

#include "live_objects.h"

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

#endif
