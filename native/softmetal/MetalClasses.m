/* Metal's parts that are classes and constants rather than protocols, for hosts where no Metal.framework has them. */
#ifndef __APPLE__

#import <Metal/Metal.h>

NSErrorDomain const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";
NSErrorDomain const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";

@implementation MTLCompileOptions

@synthesize preprocessorMacros = _preprocessorMacros;
@synthesize fastMathEnabled = _fastMathEnabled;
@synthesize languageVersion = _languageVersion;

- (instancetype)init {
  self = [super init];
  if (!self) return nil;
  _fastMathEnabled = YES;
  _languageVersion = MTLLanguageVersion3_0;
  return self;
}

- (void)dealloc {
  [_preprocessorMacros release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone {
  MTLCompileOptions *copy = [[[self class] allocWithZone:zone] init];
  copy.preprocessorMacros = _preprocessorMacros;
  copy.fastMathEnabled = _fastMathEnabled;
  copy.languageVersion = _languageVersion;
  return copy;
}

@end

#endif
