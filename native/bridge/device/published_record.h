/* A record of this process that other processes of the user read: PID-START in the folder for it.
 *
 * No signal can come of it, whatever others do to the folder, the disk or the record. On Linux the record is a memfd
 * that is allocated as a whole and then sealed: nobody can make it shorter. PID-START is a link to it under /proc, so
 * that whoever reads the path reads the memory, and a full disk does not matter. Where there is no memfd, or others
 * could not follow the link, PID-START is a plain file. That is never mapped, since somebody may truncate it: what
 * changes is written to it, and a write may fail. */
#ifndef IRON_BRIDGE_PUBLISHED_RECORD_H
#define IRON_BRIDGE_PUBLISHED_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct IronPublishedRecord {
  void *memory; /* NULL: nothing is published */
  size_t length;
  int descriptor; /* kept open; -1: none */
  bool plain;     /* what changes in `memory` has to be written to `descriptor` */
  /* of what `descriptor` was when it was opened: the program may have closed it since, and opened another file */
  dev_t device;
  ino_t inode;
  pid_t owner;
  char path[512];
} IronPublishedRecord;

/* When the process started, in the system's own unit (ironbridge_monitor.h); 0: the system does not tell. */
uint64_t IronProcessStartTime(void);

/* `length` zeroed bytes in `record->memory`; false, and nothing is there, when they cannot be published. */
bool IronPublishedRecordOpen(IronPublishedRecord *record, size_t length);
/* Takes the path away. */
void IronPublishedRecordRemove(IronPublishedRecord *record);
/* In a forked child: what it has inherited becomes memory that nobody sees. */
void IronPublishedRecordForget(IronPublishedRecord *record);

/* Whether changes at `place` have to be written, and can be now. */
bool IronPublishedRecordNeedsWrites(const IronPublishedRecord *record, const void *place);
/* Writes what changed. */
void IronPublishedRecordWrite(const IronPublishedRecord *record, const void *place, size_t length);
/* Reads what others have written. */
void IronPublishedRecordRead(const IronPublishedRecord *record, void *place, size_t length);

#endif
