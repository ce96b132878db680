#import "hazard.h"

#import "base/error.h"

static bool conflicts(IronUsers users, iron_access access) {
  return users.writers || ((access & IRON_ACCESS_WRITE) && users.readers);
}

bool IronHazardWaits(const IronHazard *hazard, iron_access access) {
  return !conflicts(hazard->recorded, access) && !conflicts(hazard->mapped, access) &&
         conflicts(hazard->in_flight, access);
}

iron_status IronHazardMap(IronHazard *hazard, IronMonitor *monitor, iron_access access) {
  for (;;) {
    if (conflicts(hazard->recorded, access))
      return IronErrorReport(IRON_ERROR_NOT_COMMITTED, "buffer: commands that are not committed yet %s it",
                             hazard->recorded.writers ? "write" : "read");
    if (conflicts(hazard->mapped, access))
      return IronErrorReport(IRON_ERROR_MAPPED, "buffer: the host has it mapped to %s",
                             hazard->mapped.writers ? "write" : "read");
    if (!conflicts(hazard->in_flight, access)) break;
    IronMonitorWait(monitor);
  }
  if ((access & IRON_ACCESS_READ) && hazard->poison != IRON_OK)
    return IronErrorReport(IRON_ERROR_POISONED,
                           "buffer: the commands that should have written it failed (%s); write all of it first",
                           iron_status_name(hazard->poison));
  if (access & IRON_ACCESS_WRITE)
    hazard->mapped.writers += 1;
  else
    hazard->mapped.readers += 1;
  return IRON_OK;
}

void IronHazardUnmap(IronHazard *hazard, iron_access access) {
  if (access & IRON_ACCESS_WRITE)
    hazard->mapped.writers -= 1;
  else
    hazard->mapped.readers -= 1;
}

iron_status IronHazardCheckRecording(const IronHazard *hazard, iron_access access, const char *argument) {
  if (!conflicts(hazard->mapped, access)) return IRON_OK;
  return IronErrorReport(IRON_ERROR_MAPPED, "%s: the host has the buffer mapped to %s", argument,
                         hazard->mapped.writers ? "write" : "read");
}
