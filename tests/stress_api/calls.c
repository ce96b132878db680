#include "calls.h"

#include <stddef.h>

static const Entries *const tables[] = {&device_calls, &buffer_calls,  &commands_calls, &operation_calls, &kernel_calls,
                                        &memory_calls, &process_calls, &owned_calls,    &published_calls,
                                        &metal_calls,    &llama_calls};
enum { TABLES = sizeof tables / sizeof *tables, DEPTH = 2 };

static _Thread_local Call *current;

Call *calls_current(void) { return current; }

unsigned calls_count(void) {
  unsigned count = 0;
  for (size_t table = 0; table < TABLES; table++) count += tables[table]->count;
  return count;
}

static const Entry *entry_at(unsigned number) {
  size_t table = 0;
  while (number >= tables[table]->count) number -= tables[table++]->count;
  return &tables[table]->entries[number];
}

void calls_make(Call *call, unsigned number) {
  Call *before = current;
  current = call;
  call->depth += 1;
  call->group = (unsigned)random_below(&call->random, GROUPS);
  entry_at(number)->make(call);
  call->depth -= 1;
  current = before;
}

void calls_make_any(Call *call) {
  unsigned count = calls_count();
  uint64_t weights = 0;
  for (unsigned number = 0; number < count; number++) weights += entry_at(number)->weight;
  uint64_t chosen = random_below(&call->random, weights);
  unsigned number = 0;
  while (chosen >= entry_at(number)->weight) chosen -= entry_at(number++)->weight;
  calls_make(call, number);
}

void calls_make_within(Call *call) {
  if (call && call->depth < DEPTH) calls_make_any(call);
}
