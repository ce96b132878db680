#include "environment.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static IronSettings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Set, and neither empty nor 0. */
static bool is_on(const char *value) { return value && *value && strcmp(value, "0") != 0; }

/* Copied: the program may change its environment. */
static const char *copy_of(const char *value) { return is_on(value) ? strdup(value) : NULL; }

static void read_all(void) {
  const char *publish = getenv("IRONBRIDGE_PUBLISH");
  settings.publish_nothing = publish && strcmp(publish, "0") == 0;
  settings.publish = publish && publish[0] == '/' ? strdup(publish) : NULL;
  settings.memory_check = is_on(getenv("IRONBRIDGE_MEMORY_CHECK"));
  settings.debug_memory = is_on(getenv("IRONBRIDGE_DEBUG_MEMORY"));
  settings.trace = copy_of(getenv("IRONBRIDGE_MEM_TRACE"));
}

const IronSettings *IronEnvironment(void) {
  pthread_once(&once, read_all);
  return &settings;
}
