/* Objects of Metal's that are handed out and wrapped again, pipeline caches and captures: on devices that no other
 * thread has, because what is handed out lives no longer than they do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

enum { LENGTH = 4096 };

static void *own(void *handle) {
  if (handle) handles_own(record_own_thread(), NULL, handle);
  return handle;
}

static void disown(Kind kind, void *handle) {
  if (!handle) return;
  if (handles_release(kind, handle) != IRON_OK)
    failure("a handle that only one thread has was gone: %s", iron_last_error());
  handles_own(record_own_thread(), handle, NULL);
}

static void refused(iron_status status, iron_status expected, const char *what) {
  if (status != expected) failure("%s: %s", what, iron_status_name(status));
}

/* A buffer of one device is the other's, too, for both are of one Metal device. */
static void wrap(iron_device *device, void *metal, void *queue) {
  void *wrapped = NULL;
  iron_buffer *first = NULL, *second = NULL;
  if (CALL(iron_device_wrap_metal, metal, queue, NULL, (iron_device **)&wrapped) != IRON_OK) return;
  own(wrapped);
  if (CALL(iron_buffer_create, device, LENGTH, NULL, &first) == IRON_OK) {
    own(first);
    void *object = NULL;
    if (CALL(iron_buffer_metal, first, &object) == IRON_OK &&
        CALL(iron_buffer_wrap_metal, wrapped, object, NULL, &second) == IRON_OK) {
      own(second);
      unsigned char seven[16], read[16] = {0};
      memset(seven, 7, sizeof seven);
      if (CALL(iron_buffer_write, first, 64, seven, sizeof seven) == IRON_OK &&
          CALL(iron_buffer_read, second, 64, read, sizeof read) == IRON_OK && memcmp(read, seven, sizeof read) != 0)
        failure("a wrapped buffer has other contents");
      disown(BUFFER, second);
    }
    iron_buffer *none = NULL;
    refused(CALL(iron_buffer_wrap_metal, wrapped, metal, NULL, &none), IRON_ERROR_INVALID_ARGUMENT,
            "a device was wrapped as a buffer");
  }
  disown(BUFFER, first);
  disown(DEVICE, wrapped);
}

static void own_metal(Call *call) {
  iron_device *device = NULL;
  if (CALL(iron_device_open, "cpu", NULL, &device) != IRON_OK) return;
  own(device);
  void *metal = NULL, *queue = NULL;
  if (CALL(iron_device_metal, device, &metal, &queue) == IRON_OK)
    wrap(device, metal, random_chance(&call->random, 50) ? queue : NULL);
  disown(DEVICE, device);
}

static void own_files(Call *call) {
  (void)call;
  char path[64];
  snprintf(path, sizeof path, "/tmp/stress-api-%d-%u.gputrace", (int)getpid(), record_own_thread());
  iron_device *device = NULL;
  if (CALL(iron_device_open, "cpu", NULL, &device) != IRON_OK) return;
  own(device);
  refused(CALL(iron_capture_end, device), IRON_ERROR_STATE, "a capture ended that never began");
  /* Another thread may have one. */
  if (CALL(iron_capture_begin, device, path) == IRON_OK) {
    refused(CALL(iron_capture_end, device), IRON_OK, "a capture did not end");
    remove(path);
  }
  refused(CALL(iron_pipeline_cache_save, device), IRON_ERROR_STATE, "a cache was saved that there is not");
  refused(CALL(iron_pipeline_cache_open, device, "/dev/null"), IRON_ERROR_FILE, "an empty file is a cache");
  CALL(iron_pipeline_cache_open, device, path);
  CALL(iron_pipeline_cache_save, device);
  disown(DEVICE, device);
}

void metal_calls_prepare(void) { setenv("MTL_CAPTURE_ENABLED", "1", 1); }

static const Entry entries[] = {{own_metal, 4}, {own_files, 2}};
const Entries metal_calls = {entries, sizeof entries / sizeof *entries};
