#include "ironbridge.h"

uint32_t iron_abi_version(void) { return IRON_ABI_VERSION; }
const char *iron_version(void) { return IRON_VERSION; }
