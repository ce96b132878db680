#import "debug_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#import "base/text.h"

IronMemoryChange IronDebugMemoryBefore(id<MTLDevice> metal) {
  IronMemoryChange change = {.metal = nil};
  if (!IronEnvironment()->debug_memory) return change;
  change.metal = metal;
  change.before = [metal currentAllocatedSize];
  return change;
}

void IronDebugMemoryAfter(const IronMemoryChange *change, const char *event, uint64_t bytes, uint64_t size_class,
                          const char *label, uint64_t references) {
  if (!change->metal) return;
  char text[1024];
  if (!label) label = "";
  IronTextEscape(text, sizeof text, label, strlen(label));
  fprintf(stderr, "ironbridge memory: %-8s %llu bytes, class %llu, references %llu, device %llu -> %llu \"%s\"\n", event,
          (unsigned long long)bytes, (unsigned long long)size_class, (unsigned long long)references,
          (unsigned long long)change->before, (unsigned long long)[change->metal currentAllocatedSize],
          text);
}
