/* Reads an MTLFunctionConstantValues. */
#ifndef SOFT_CONSTANTS_H
#define SOFT_CONSTANTS_H

#import "SoftObject.h"
#include "backend.h"

/* soft_constant structs one after another (autoreleased; valid while `values` is not changed), or nil and *error where
 * they cannot be read: Apple's class has no accessor, so on a Mac the software device cannot specialise functions. */
NSData *soft_constants(MTLFunctionConstantValues *values, NSError **error);

#endif
