/* The Metal Shading Language's standard library for clang: read before every rewritten source. functions.h, threads.h
 * and entry.h are the target's, from its folder. */
#include "types.h"
#include "traits.h"
#include "functions.h"
#include "vector.h"
#include "math.h"
#include "matrix.h"
#include "atomic.h"
#include "threads.h"
#include "simd.h"
#include "simdgroup_matrix.h"
#include "constants.h"
#include "entry.h"
