/* What belongs to the process or the thread: versions, errors, places in the source, hooks, diagnostics. */
#include <string.h>

#include "calls.h"

static void abi_version(Call *call) {
  (void)call;
  record_begin(FUNCTION_iron_abi_version);
  uint32_t version = iron_abi_version();
  record_end(FUNCTION_iron_abi_version, IRON_OK);
  if (version != IRON_ABI_VERSION) failure("iron_abi_version is %u", version);
}

static void version(Call *call) {
  (void)call;
  record_begin(FUNCTION_iron_version);
  const char *text = iron_version();
  record_end(FUNCTION_iron_version, IRON_OK);
  if (!text || strcmp(text, IRON_VERSION) != 0) failure("iron_version is %s", text ? text : "NULL");
}

static void status_name(Call *call) {
  iron_status status = (iron_status)random_constant(&call->random, 0, IRON_ERROR_INTERNAL);
  record_begin(FUNCTION_iron_status_name);
  const char *text = iron_status_name(status);
  record_end(FUNCTION_iron_status_name, IRON_OK);
  if (!text || strncmp(text, "IRON_", 5) != 0)
    failure("iron_status_name of %d is %s", (int)status, text ? text : "NULL");
}

static void last_error(Call *call) {
  (void)call;
  record_begin(FUNCTION_iron_last_error);
  const char *text = iron_last_error();
  record_end(FUNCTION_iron_last_error, IRON_OK);
  if (!text || strlen(text) > 1 << 20) failure("iron_last_error is %s", text ? "very long" : "NULL");
}

static void source(Call *call) {
  static const char file[] = "not/ended.c";
  Random *random = &call->random;
  uint32_t line = (uint32_t)random_count(random, 1000);
  if (random_chance(random, 50))
    CALL(iron_source, file, 1 + random_below(random, sizeof file - 1), line);
  else
    CALL(iron_source, given_text(call), 0, line);
}

static void diagnose(Call *call) {
  GIVEN(iron_diagnostics) diagnostics;
  given_output(call, &diagnostics, sizeof diagnostics.value);
  iron_status status = CALL(iron_diagnose, given_or_null(call, &diagnostics));
  given_output_check("iron_diagnose", status, &diagnostics, sizeof diagnostics.value);
}

static void visit(const char *class_name, int64_t live, void *context) {
  Call *call = context;
  record_callback();
  if (!class_name || !*class_name || live < 0) failure("iron_live_objects: %lld live of a class", (long long)live);
  if (random_chance(&call->random, 5)) calls_make_within(call);
}

static void live_objects(Call *call) { CALL(iron_live_objects, random_chance(&call->random, 95) ? visit : NULL, call); }

static void leaked(const iron_leaks *leaks, void *context) {
  (void)context;
  record_callback();
  uint64_t bytes = 0;
  for (uint64_t index = 0; index < leaks->leaked_count; index++) bytes += leaks->allocations[index].bytes;
  if (bytes != leaks->leaked_bytes)
    failure("a leak hook was told of %llu bytes and shown others", (unsigned long long)leaks->leaked_bytes);
  calls_make_within(calls_current());
}

/* Without a hook, leaks are told to stderr: not here. */
static void leak_hook(Call *call) {
  static int contexts[2];
  CALL(iron_leak_hook, leaked, &contexts[random_below(&call->random, 2)]);
}

static void traced(const iron_trace_event *event, void *context) {
  (void)context;
  record_callback();
  if (event->size != sizeof *event || !*event->operation || !event->shape)
    failure("a trace hook got an event without an operation");
  if (event->file && memchr(event->file, '\0', event->file_length))
    failure("a trace hook got a file name of the wrong length");
}

static void trace_hook(Call *call) { CALL(iron_trace_hook, random_chance(&call->random, 50) ? traced : NULL, NULL); }

void process_calls_end(void) {
  CALL(iron_trace_hook, NULL, NULL);
  CALL(iron_leak_hook, leaked, NULL);
}

static const Entry entries[] = {
    {abi_version, 1}, {version, 1},      {status_name, 3}, {last_error, 5}, {source, 40},
    {diagnose, 10},   {live_objects, 3}, {leak_hook, 3},   {trace_hook, 5},
};
const Entries process_calls = {entries, sizeof entries / sizeof *entries};
