/* A device's memory: figures, settings, what is given back. */
#include <string.h>

#include "calls.h"

static void *device_of(Call *call) { return handles_any(call, DEVICE); }

static void memory_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_memory_describe, device_of(call), iron_memory_info);
}
static void memory_configuration(Call *call) {
  CALL_WITH_OUTPUT(call, iron_memory_configuration, device_of(call), iron_memory_settings);
}
static void memory_reset(Call *call) { CALL(iron_memory_reset, device_of(call), random_constant(&call->random, 0, 8)); }

/* A limit of memory stays until the next call, so most have room. */
static void memory_configure(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_memory_settings) settings = {.value = {.memory_limit = UINT64_MAX}};
  if (random_chance(random, 5)) settings.value.memory_limit = random_count(random, 1 << 20);
  if (random_chance(random, 50)) settings.value.pool_max_bytes = random_count(random, 1 << 18);
  if (random_chance(random, 50)) settings.value.pool_idle_time = random_count(random, 1000000);
  if (random_chance(random, 50)) settings.value.pool_max_buffer_bytes = random_count(random, 1 << 16);
  if (random_chance(random, 50)) settings.value.pool_max_buffers = (uint32_t)random_count(random, 8);
  settings.value.pool_policy = (iron_idle_policy)random_constant(random, IRON_IDLE_DEFAULT, IRON_IDLE_RELEASE);
  given_input(call, &settings, sizeof settings.value);
  CALL(iron_memory_configure, device_of(call), given_or_null(call, &settings));
}

static void memory_reclaim(Call *call) {
  GIVEN(iron_reclaimed) reclaimed;
  given_output(call, &reclaimed, sizeof reclaimed.value);
  iron_reclaim what = (iron_reclaim)random_constant(&call->random, IRON_RECLAIM_SYNC, IRON_RECLAIM_CLEANUP);
  uint64_t timeout = random_timeout(&call->random);
  void *place = random_chance(&call->random, 30) ? NULL : &reclaimed;
  iron_status status = CALL(iron_memory_reclaim, device_of(call), what, timeout, place);
  /* After IRON_ERROR_TIMEOUT the rest was done, and the figures say what it brought. */
  if (place)
    given_output_check("iron_memory_reclaim", status == IRON_ERROR_TIMEOUT ? IRON_OK : status, &reclaimed,
                       sizeof reclaimed.value);
}

static void visit(const iron_allocation *allocation, void *context) {
  Call *call = context;
  record_callback();
  if (allocation->size != sizeof *allocation || !allocation->label || strlen(allocation->label) > 4096)
    failure("iron_memory_list told of an allocation without a label");
  if (random_chance(&call->random, 5)) calls_make_within(call);
}

static void memory_list(Call *call) {
  CALL(iron_memory_list, device_of(call), random_chance(&call->random, 97) ? visit : NULL, call);
}

static const Entry entries[] = {
    {memory_describe, 20}, {memory_configuration, 10}, {memory_reset, 10}, {memory_configure, 10},
    {memory_reclaim, 10},  {memory_list, 10},
};
const Entries memory_calls = {entries, sizeof entries / sizeof *entries};
