#include "published_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sys/prctl.h>
#endif

#include "base/environment.h"

#pragma mark The process

#ifdef __APPLE__

uint64_t IronProcessStartTime(void) {
  struct kinfo_proc info;
  size_t length = sizeof info;
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, getpid()};
  if (sysctl(name, 4, &info, &length, NULL, 0) != 0 || length == 0) return 0;
  return (uint64_t)info.kp_proc.p_starttime.tv_sec * 1000000u + (uint64_t)info.kp_proc.p_starttime.tv_usec;
}

#else

/* proc(5): the 22nd field, counted behind the name in parentheses, which may hold anything. */
uint64_t IronProcessStartTime(void) {
  char text[1024];
  FILE *stat = fopen("/proc/self/stat", "re");
  if (!stat) return 0;
  size_t length = fread(text, 1, sizeof text - 1, stat);
  fclose(stat);
  text[length] = '\0';
  char *field = strrchr(text, ')');
  for (int number = 2; field && number < 22; number++) field = strchr(field + 1, ' ');
  return field ? strtoull(field + 1, NULL, 10) : 0;
}

#endif

#pragma mark The folder

/* Opens a folder that only this user can have put files into, making it when it is not there; -1 when there is none. */
static int open_own_folder(const char *folder) {
  if (mkdir(folder, 0700) != 0 && errno != EEXIST) return -1;
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (descriptor < 0) return -1;
  if (fstat(descriptor, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return descriptor;
  close(descriptor);
  return -1;
}

static int open_folder(char *folder, size_t capacity) {
  const char *given = IronEnvironment()->publish;
  if (given) {
    snprintf(folder, capacity, "%s", given);
    return open_own_folder(folder);
  }
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime && runtime[0] == '/') {
    snprintf(folder, capacity, "%s/ironbridge", runtime);
    int descriptor = open_own_folder(folder);
    if (descriptor >= 0) return descriptor;
  }
  snprintf(folder, capacity, "/tmp/ironbridge-%u", (unsigned)geteuid());
  return open_own_folder(folder);
}

#pragma mark What is published

/* A file that would be longer than the process may write ends it with SIGXFSZ, a memfd as well. */
static bool may_write(size_t length) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= length);
}

static bool is_open(const IronPublishedRecord *record) {
  struct stat status;
  return record->descriptor >= 0 && fstat(record->descriptor, &status) == 0 && status.st_dev == record->device &&
         status.st_ino == record->inode;
}

static bool remember(IronPublishedRecord *record, int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  record->descriptor = descriptor;
  record->device = status.st_dev;
  record->inode = status.st_ino;
  return true;
}

#ifdef __linux__

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static int create_memory(const char *name) {
  char title[96];
  snprintf(title, sizeof title, "ironbridge-%s", name); /* a reader knows it by this */
  int descriptor = memfd_create(title, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  return descriptor < 0 && errno == EINVAL ? memfd_create(title, MFD_CLOEXEC | MFD_ALLOW_SEALING) : descriptor;
}

/* With all its pages, so that none is missing when it is first written to. */
static bool allocate(int descriptor, size_t length) {
  int result;
  do result = fallocate(descriptor, 0, 0, (off_t)length);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

static bool map_sealed(IronPublishedRecord *record, int descriptor) {
  if (fchmod(descriptor, 0600) != 0 || !allocate(descriptor, record->length)) return false;
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return false;
  void *mapped = mmap(NULL, record->length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return false;
  record->memory = mapped;
  return true;
}

/* The link leads others to the memory: there is a /proc, its numbers are ours, and the process is not hidden from its
 * user. */
static bool link_leads_there(const IronPublishedRecord *record) {
  struct stat status;
  return prctl(PR_GET_DUMPABLE) == 1 && stat(record->path, &status) == 0 && status.st_dev == record->device &&
         status.st_ino == record->inode;
}

static bool publish_memory(IronPublishedRecord *record, int folder, const char *name) {
  int descriptor = create_memory(name);
  if (descriptor < 0) return false;
  char target[64];
  snprintf(target, sizeof target, "/proc/%ld/fd/%d", (long)getpid(), descriptor);
  if (remember(record, descriptor) && map_sealed(record, descriptor)) {
    if (symlinkat(target, folder, name) == 0) {
      if (link_leads_there(record)) return true;
      unlinkat(folder, name, 0);
    }
    munmap(record->memory, record->length);
  }
  record->memory = NULL;
  close(descriptor);
  return false;
}

#else

static bool publish_memory(IronPublishedRecord *record, int folder, const char *name) {
  (void)record, (void)folder, (void)name;
  return false;
}

#endif

static bool publish_file(IronPublishedRecord *record, int folder, const char *name) {
  int descriptor = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  void *memory = calloc(1, record->length); /* kept for the life of the process, as a mapping is */
  if (memory && remember(record, descriptor) &&
      pwrite(descriptor, memory, record->length, 0) == (ssize_t)record->length) {
    record->memory = memory;
    record->plain = true;
    return true;
  }
  free(memory);
  unlinkat(folder, name, 0);
  close(descriptor);
  return false;
}

bool IronPublishedRecordOpen(IronPublishedRecord *record, size_t length) {
  *record = (IronPublishedRecord){.length = length, .descriptor = -1, .owner = getpid()};
  if (!may_write(length)) return false;
  char folder[400], name[64];
  int descriptor = open_folder(folder, sizeof folder);
  if (descriptor < 0) return false;
  snprintf(name, sizeof name, "%ld-%llu", (long)getpid(), (unsigned long long)IronProcessStartTime());
  snprintf(record->path, sizeof record->path, "%s/%s", folder, name);
  unlinkat(descriptor, name, 0); /* of a process that a machine without this start time had before */
  bool published = publish_memory(record, descriptor, name) || publish_file(record, descriptor, name);
  close(descriptor);
  if (!published) record->descriptor = -1;
  return published;
}

void IronPublishedRecordRemove(IronPublishedRecord *record) {
  if (record->memory && record->owner == getpid()) unlink(record->path);
}

void IronPublishedRecordForget(IronPublishedRecord *record) {
  const int flags = MAP_PRIVATE | MAP_ANON | MAP_FIXED;
  if (record->memory && !record->plain)
    mmap(record->memory, record->length, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (is_open(record)) close(record->descriptor);
  record->memory = NULL;
  record->descriptor = -1;
  record->plain = false;
}

#pragma mark Plain files

bool IronPublishedRecordNeedsWrites(const IronPublishedRecord *record, const void *place) {
  uintptr_t at = (uintptr_t)place, start = (uintptr_t)record->memory;
  if (!record->plain || !start || at < start || at >= start + record->length) return false;
  return is_open(record) && may_write(record->length);
}

static off_t offset_of(const IronPublishedRecord *record, const void *place) {
  return (off_t)((uintptr_t)place - (uintptr_t)record->memory);
}

void IronPublishedRecordWrite(const IronPublishedRecord *record, const void *place, size_t length) {
  ssize_t written = pwrite(record->descriptor, place, length, offset_of(record, place));
  (void)written; /* a figure that cannot be published is not published */
}

void IronPublishedRecordRead(const IronPublishedRecord *record, void *place, size_t length) {
  char bytes[64];
  if (length > sizeof bytes) length = sizeof bytes;
  if (pread(record->descriptor, bytes, length, offset_of(record, place)) == (ssize_t)length)
    memcpy(place, bytes, length);
}
