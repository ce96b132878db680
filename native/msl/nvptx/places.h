/* What instructions of PTX are told of memory. */
#ifndef MSL_PLACES_H
#define MSL_PLACES_H

#include "../types.h"

namespace msl {

/* The address within the shared state space (PTX ISA 8.4, section 5.1.7) of threadgroup memory. */
MSL_INLINE uint shared_place(const void *memory) {
  return (uint)(ulong)(const __attribute__((address_space(3))) void *)memory;
}

/* The policy of a cache for what is the first that the L2 cache gives up, as createpolicy.fractional.L2::evict_first
 * makes it (section 9.7.9.16). */
constexpr ulong evict_first = 0x12f0000000000000ul;

}

#endif
