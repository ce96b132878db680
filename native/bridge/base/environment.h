/* The environment variables of the bridge, read once, when they are first asked for. IRONBRIDGE_DEVICE is not among
 * them: it is read by each open (see device_list.m). */
#ifndef IRON_BRIDGE_ENVIRONMENT_H
#define IRON_BRIDGE_ENVIRONMENT_H

#include <stdbool.h>

typedef struct IronSettings {
  const char *publish;      /* IRONBRIDGE_PUBLISH: the folder to publish in; NULL: the usual ones */
  bool publish_nothing;     /* IRONBRIDGE_PUBLISH=0 */
  bool memory_check;        /* IRONBRIDGE_MEMORY_CHECK: full statistics when a device closes */
  bool debug_memory;        /* IRONBRIDGE_DEBUG_MEMORY: a line for each change of memory */
  const char *trace;        /* IRONBRIDGE_MEM_TRACE: "1" for stderr or the path of a file; NULL: no trace */
} IronSettings;

const IronSettings *IronEnvironment(void);

#endif
