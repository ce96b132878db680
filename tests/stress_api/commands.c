/* Commands: begun, submitted, waited for. */
#include "calls.h"

static void *commands_of(Call *call) { return handles_any(call, COMMANDS); }

static void commands_begin(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_commands_options) options = {.value = {.label = random_chance(random, 80) ? NULL : given_text(call),
                       .max_operations = random_chance(random, 30) ? UINT32_MAX : (uint32_t)random_count(random, 8),
                       .activations = random_constant(random, 0, 3)}};
  given_input(call, &options, sizeof options.value);
  void *result = given_result(), *place = given_or_null(call, &result);
  const void *with = random_chance(random, 40) ? NULL : &options;
  iron_status status = CALL(iron_commands_begin, handles_any(call, DEVICE), with, place);
  handles_put(call, COMMANDS, given_result_check("iron_commands_begin", status, place ? result : NULL));
}

static void commands_flush(Call *call) { CALL(iron_commands_flush, commands_of(call)); }
static void commands_commit(Call *call) { CALL(iron_commands_commit, commands_of(call)); }
static void commands_wait(Call *call) { CALL(iron_commands_wait, commands_of(call), random_timeout(&call->random)); }
static void commands_run(Call *call) { CALL(iron_commands_run, commands_of(call)); }
static void commands_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_commands_describe, commands_of(call), iron_commands_info);
}

static void commands_submission(Call *call) {
  GIVEN(iron_submission) output;
  given_output(call, &output, sizeof(iron_submission));
  uint32_t index = (uint32_t)random_count(&call->random, 3) - 1;
  iron_status status =
      CALL(iron_commands_submission, commands_of(call), index, given_or_null(call, &output));
  given_output_check("iron_commands_submission", status, &output, sizeof(iron_submission));
  if (status == IRON_OK && output.value.end < output.value.start) failure("a submission ended before it began");
}

static void commands_retain(Call *call) {
  void *commands = commands_of(call);
  if (CALL(iron_commands_retain, commands) == IRON_OK) handles_put(call, COMMANDS, commands);
}

static void commands_release(Call *call) { handles_release(COMMANDS, handles_take(call, COMMANDS)); }

static const Entry entries[] = {
    {commands_begin, 120}, {commands_flush, 15},    {commands_commit, 8},  {commands_wait, 15},
    {commands_run, 8},     {commands_describe, 10}, {commands_retain, 10}, {commands_release, 20},
    {commands_submission, 10},
};
const Entries commands_calls = {entries, sizeof entries / sizeof *entries};
