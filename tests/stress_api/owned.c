/* Calls on objects that no other thread has: they succeed, and what they leave in memory is right, whatever the others
 * do. */
#include <string.h>

#include "calls.h"

enum { LENGTH = 8192 };

static void *own(unsigned thread, void *handle) {
  if (handle) handles_own(thread, NULL, handle);
  return handle;
}

static void disown(unsigned thread, Kind kind, void *handle) {
  if (!handle) return;
  if (handles_release(kind, handle) != IRON_OK)
    failure("a handle that only one thread has was gone: %s", iron_last_error());
  handles_own(thread, handle, NULL);
}

static bool is_filled(const unsigned char *bytes, unsigned char value) {
  return bytes[0] == value && memcmp(bytes, bytes + 1, LENGTH - 1) == 0;
}

static iron_buffer *make_buffer(iron_device *device, bool pooled, iron_storage storage) {
  iron_buffer *buffer = NULL;
  iron_buffer_options options = {.size = sizeof options, .pooled = pooled, .storage = storage};
  CALL(iron_buffer_create, device, LENGTH, &options, &buffer);
  return own(record_own_thread(), buffer);
}

/* A fill, a copy and a read in another thread's traffic on the same device. */
static void own_work(Call *call) {
  unsigned thread = record_own_thread();
  iron_device *device = handles_witness();
  bool pooled = random_chance(&call->random, 70);
  iron_storage storage = random_chance(&call->random, 50) ? IRON_STORAGE_PRIVATE : IRON_STORAGE_SHARED;
  iron_buffer *from = make_buffer(device, pooled, storage), *to = make_buffer(device, pooled, storage);
  iron_commands *commands = NULL;
  if (from && to) CALL(iron_commands_begin, device, NULL, &commands);
  own(thread, commands);
  unsigned char value = (unsigned char)(1 + random_below(&call->random, 255));
  if (commands && CALL(iron_encode_fill, commands, from, 0, LENGTH, value) == IRON_OK &&
      CALL(iron_encode_copy_bytes, commands, from, 0, to, 0, LENGTH) == IRON_OK &&
      CALL(iron_commands_run, commands) == IRON_OK) {
    memset(call->scratch, 0, LENGTH);
    iron_status status = CALL(iron_buffer_read, to, 0, call->scratch, LENGTH);
    if (status == IRON_OK && !is_filled(call->scratch, value))
      failure("a copy of a filled buffer holds something else");
  }
  disown(thread, COMMANDS, commands);
  disown(thread, BUFFER, from);
  disown(thread, BUFFER, to);
}

/* A map outlives the close of its device and the last reference to its buffer's device. */
static void own_map(Call *call) {
  unsigned thread = record_own_thread();
  iron_device *device = NULL;
  if (CALL(iron_device_open, "cpu", NULL, &device) != IRON_OK) return;
  own(thread, device);
  iron_buffer *buffer = make_buffer(device, random_chance(&call->random, 50), IRON_STORAGE_SHARED);
  void *pointer = NULL;
  if (buffer && CALL(iron_buffer_map, buffer, IRON_ACCESS_READ_WRITE, &pointer) == IRON_OK) {
    memset(pointer, 0x5a, LENGTH);
    CALL(iron_device_close, device, UINT64_MAX, NULL);
    if (!is_filled(pointer, 0x5a)) failure("a mapped buffer lost its contents when its device was closed");
    if (CALL(iron_buffer_unmap, buffer, IRON_ACCESS_READ_WRITE) != IRON_OK)
      failure("a map could not be ended: %s", iron_last_error());
  }
  disown(thread, DEVICE, device);
  disown(thread, BUFFER, buffer);
}

static const Entry entries[] = {{own_work, 15}, {own_map, 2}};
const Entries owned_calls = {entries, sizeof entries / sizeof *entries};
