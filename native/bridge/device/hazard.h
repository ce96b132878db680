/* Who uses a buffer: the commands being recorded, the submissions in flight, the host. Every function is called with
 * the device's monitor held.
 *
 *                    recorded, not committed   in flight          mapped by the host
 *   host reads       refused if writing        waits if writing   refused if writing
 *   host writes      refused                   waits              refused
 *   recording        in commit order           in commit order    refused if either writes */
#ifndef IRON_BRIDGE_HAZARD_H
#define IRON_BRIDGE_HAZARD_H

#include "ironbridge.h"
#include "base/monitor.h"

typedef struct IronUsers {
  uint32_t readers, writers;
} IronUsers;

typedef struct IronHazard {
  IronUsers recorded;  /* submissions still open */
  IronUsers in_flight; /* submissions committed and not complete */
  IronUsers mapped;    /* host copies under way, and what is lent */
  uint32_t lent_to_read;
  iron_access lent_to_write; /* how iron_buffer_map lent it to its one writer; 0: not */
  iron_status poison;        /* the failure of the submission that should have written the buffer; IRON_OK: none */
} IronHazard;

/* Whether a map would wait for what is in flight. */
bool IronHazardWaits(const IronHazard *hazard, iron_access access);
/* Waits for what is in flight and then maps the buffer, or refuses. */
iron_status IronHazardMap(IronHazard *hazard, IronMonitor *monitor, iron_access access);
void IronHazardUnmap(IronHazard *hazard, iron_access access);

/* Refuses a use by commands that a map stands against. `argument` names the buffer in the message. */
iron_status IronHazardCheckRecording(const IronHazard *hazard, iron_access access, const char *argument);

#endif
