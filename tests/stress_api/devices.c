/* Devices and their compute threads. */
#include "calls.h"

static void device_count(Call *call) {
  uint32_t count = 0;
  iron_status status = CALL(iron_device_count, given_or_null(call, &count));
  if (status == IRON_OK && count == 0) failure("iron_device_count found none");
}

static void device_describe_index(Call *call) {
  CALL_WITH_OUTPUT(call, iron_device_describe_index, (uint32_t)random_count(&call->random, 2) - 1, iron_device_info);
}

static const char *selector(Call *call) {
  static const char *const usual[] = {"cpu", "cpu:memory_limit=1M", "cpu:max_buffer_length=100K", "cpu:delay_us=300"};
  static const char *const faulty[] = {"cpu:fail_allocation=3,fail_allocation=9", "cpu:fail_command_buffer=2:timeout",
                                       "cpu:fail_command_buffer=1:out_of_memory,fail_command_buffer=4:page_fault",
                                       "cpu:fail_command_buffer=3:5", "cpu:fail_command_buffer=2:device_removed"};
  static const char *const odd[] = {NULL,
                                    "",
                                    "default",
                                    "metal",
                                    "0",
                                    "4294967295",
                                    "99999999999999999999",
                                    "-1",
                                    "cpu:",
                                    "cpu:x",
                                    "cpu:max_buffer_length=",
                                    "gpu",
                                    "cpu:fail_allocation=0"};
  Random *random = &call->random;
  if (random_chance(random, 60)) return usual[random_below(random, sizeof usual / sizeof *usual)];
  if (random_chance(random, 50)) return faulty[random_below(random, sizeof faulty / sizeof *faulty)];
  if (random_chance(random, 70)) return odd[random_below(random, sizeof odd / sizeof *odd)];
  return given_text(call);
}

static void device_open(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_device_options) options = {.value = {.max_operations = (uint32_t)random_count(random, 20)}};
  if (random_chance(random, 50)) options.value.max_in_flight = (uint32_t)random_count(random, 64);
  if (random_chance(random, 20)) options.value.max_flush_bytes = random_count(random, 1 << 20);
  if (random_chance(random, 50)) options.value.pool_max_bytes = random_count(random, 1 << 18);
  if (random_chance(random, 50)) options.value.pool_max_buffers = (uint32_t)random_count(random, 8);
  if (random_chance(random, 20)) options.value.pool_max_buffer_bytes = random_count(random, 1 << 16);
  if (random_chance(random, 50)) options.value.pool_idle_time = random_count(random, 5000000);
  if (random_chance(random, 20)) options.value.memory_limit = random_count(random, 1 << 22);
  options.value.pool_policy = (iron_idle_policy)random_constant(random, IRON_IDLE_DEFAULT, IRON_IDLE_RELEASE);
  given_input(call, &options, sizeof options.value);
  void *result = given_result(), *place = given_or_null(call, &result);
  const void *with = random_chance(random, 30) ? NULL : &options;
  iron_status status = CALL(iron_device_open, selector(call), with, place);
  handles_put(call, DEVICE, given_result_check("iron_device_open", status, place ? result : NULL));
}

static void device_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_device_describe, handles_any(call, DEVICE), iron_device_info);
}

static void device_sync(Call *call) {
  CALL(iron_device_sync, handles_any(call, DEVICE), random_timeout(&call->random));
}

static void device_close(Call *call) {
  void *device = handles_any(call, DEVICE);
  GIVEN(iron_leaks) leaks;
  given_output(call, &leaks, sizeof leaks.value);
  void *place = random_chance(&call->random, 50) ? &leaks : NULL;
  uint64_t timeout = random_timeout(&call->random);
  iron_status status = CALL(iron_device_close, handles_is_witness(device) ? NULL : device, timeout, place);
  if (place) given_output_check("iron_device_close", status, &leaks, sizeof leaks.value);
  if (status == IRON_OK && random_chance(&call->random, 90)) device_open(call);
}

static void device_retain(Call *call) {
  void *device = handles_any(call, DEVICE);
  if (CALL(iron_device_retain, device) == IRON_OK) handles_put(call, DEVICE, device);
}

/* The others need a device to go on with, now as after a close. */
static void device_release(Call *call) {
  if (handles_release(DEVICE, handles_take(call, DEVICE)) == IRON_OK && random_chance(&call->random, 90))
    device_open(call);
}

static void compute_threads(Call *call) {
  uint32_t threads;
  CALL(iron_compute_threads, handles_any(call, DEVICE), given_or_null(call, &threads));
}

static void compute_set_threads(Call *call) {
  uint32_t threads = (uint32_t)random_count(&call->random, 4);
  /* Many threads are slow to come and go, and say nothing new. */
  if (threads > 16 && threads <= 1024) threads = 16;
  CALL(iron_compute_set_threads, handles_any(call, DEVICE), threads);
}

static void compute_pin(Call *call) {
  uint32_t processors[4];
  for (int index = 0; index < 4; index++) processors[index] = (uint32_t)random_count(&call->random, 2) - 1;
  bool none = random_chance(&call->random, 20);
  uint64_t count = none ? random_count(&call->random, 4) : random_below(&call->random, 5);
  CALL(iron_compute_pin, handles_any(call, DEVICE), none ? NULL : processors, count);
}

static const Entry entries[] = {
    {device_count, 5},     {device_describe_index, 5}, {device_open, 4},   {device_describe, 10},
    {device_sync, 10},     {device_close, 1},          {device_retain, 4}, {device_release, 4},
    {compute_threads, 10}, {compute_set_threads, 1},   {compute_pin, 1},
};
const Entries device_calls = {entries, sizeof entries / sizeof *entries};
