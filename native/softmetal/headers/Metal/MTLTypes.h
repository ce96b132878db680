#ifndef SOFTMETAL_MTL_TYPES_H
#define SOFTMETAL_MTL_TYPES_H

#import <Metal/MTLDefines.h>

typedef struct {
  NSUInteger width, height, depth;
} MTLSize;

MTL_INLINE MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  return (MTLSize){width, height, depth};
}

#endif
