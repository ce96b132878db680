/* The published figures, as another process reads them: ironbridge_monitor.h has no functions, but a layout and what a
 * reader may write. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <ironbridge_monitor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"

/* This process's file; -1 when there is none, as where IRONBRIDGE_PUBLISH does not say where to look. */
static int open_own_file(void) {
  const char *folder = getenv("IRONBRIDGE_PUBLISH");
  DIR *list = folder ? opendir(folder) : NULL;
  int file = -1;
  char prefix[32];
  snprintf(prefix, sizeof prefix, "%d-", (int)getpid());
  for (struct dirent *entry; list && file < 0 && (entry = readdir(list));)
    if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
      file = openat(dirfd(list), entry->d_name, O_RDWR | O_CLOEXEC);
  if (list) closedir(list);
  return file;
}

static void look_at_device(Call *call, iron_published_device *device) {
  uint64_t sequence = __atomic_load_n(&device->sequence, __ATOMIC_ACQUIRE);
  uint64_t allocations = __atomic_load_n(&device->allocations, __ATOMIC_RELAXED);
  uint64_t releases = __atomic_load_n(&device->releases, __ATOMIC_RELAXED);
  uint64_t active = __atomic_load_n(&device->active_buffers, __ATOMIC_RELAXED);
  uint64_t opened = __atomic_load_n(&device->opened_at, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  bool together = sequence % 2 == 0 && __atomic_load_n(&device->sequence, __ATOMIC_RELAXED) == sequence;
  if (opened && together && allocations - releases != active)
    failure("the published figures do not belong together: %" PRIu64 " - %" PRIu64 " buffers, %" PRIu64 " active",
            allocations, releases, active);
  if (random_chance(&call->random, 10))
    __atomic_store_n(&device->baseline_bytes, random_bits(&call->random), __ATOMIC_RELAXED);
  if (random_chance(&call->random, 10))
    __atomic_fetch_or(&device->requests, IRON_PUBLISHED_RESET_PEAK, __ATOMIC_RELAXED);
}

static void look(Call *call) {
  int file = open_own_file();
  if (file < 0) return;
  struct stat status;
  void *memory = fstat(file, &status) == 0
                     ? mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) return;
  iron_published_process *process = memory;
  if (__atomic_load_n(&process->magic, __ATOMIC_ACQUIRE) == IRON_PUBLISHED_MAGIC) {
    uint64_t end = process->device_offset + (uint64_t)process->device_size * process->device_slots;
    if (process->pid != (uint64_t)getpid() || end > (uint64_t)status.st_size)
      failure("the published file has a wrong head");
    for (uint32_t slot = 0; slot < process->device_slots; slot++)
      look_at_device(call, (void *)((char *)memory + process->device_offset + (uint64_t)slot * process->device_size));
  }
  munmap(memory, (size_t)status.st_size);
}

static const Entry entries[] = {{look, 1}};
const Entries published_calls = {entries, sizeof entries / sizeof *entries};
