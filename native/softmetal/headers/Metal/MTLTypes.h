#ifndef SOFTMETAL_MTL_TYPES_H
#define SOFTMETAL_MTL_TYPES_H

#import <Metal/MTLDefines.h>

typedef struct {
  NSUInteger width, height, depth;
} MTLSize;

MTL_INLINE MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  return (MTLSize){width, height, depth};
}

typedef struct {
  NSUInteger x, y, z;
} MTLOrigin;

MTL_INLINE MTLOrigin MTLOriginMake(NSUInteger x, NSUInteger y, NSUInteger z) { return (MTLOrigin){x, y, z}; }

typedef struct {
  MTLOrigin origin;
  MTLSize size;
} MTLRegion;

MTL_INLINE MTLRegion MTLRegionMake1D(NSUInteger x, NSUInteger width) {
  return (MTLRegion){{x, 0, 0}, {width, 1, 1}};
}

MTL_INLINE MTLRegion MTLRegionMake2D(NSUInteger x, NSUInteger y, NSUInteger width, NSUInteger height) {
  return (MTLRegion){{x, y, 0}, {width, height, 1}};
}

MTL_INLINE MTLRegion MTLRegionMake3D(NSUInteger x, NSUInteger y, NSUInteger z, NSUInteger width, NSUInteger height,
                                     NSUInteger depth) {
  return (MTLRegion){{x, y, z}, {width, height, depth}};
}

#endif
