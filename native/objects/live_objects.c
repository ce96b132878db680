#include "live_objects.h"

#include <stdatomic.h>

static _Atomic(live_objects_class *) first;

static void link_once(live_objects_class *counted) {
  int expected = 0;
  if (!atomic_compare_exchange_strong(&counted->linked, &expected, 1)) return;
  live_objects_class *head = atomic_load(&first);
  do counted->next = head;
  while (!atomic_compare_exchange_weak(&first, &head, counted));
}

void live_objects_add(live_objects_class *counted) {
  if (!atomic_load_explicit(&counted->linked, memory_order_acquire)) link_once(counted);
  atomic_fetch_add_explicit(&counted->live, 1, memory_order_relaxed);
}

void live_objects_remove(live_objects_class *counted) {
  atomic_fetch_sub_explicit(&counted->live, 1, memory_order_relaxed);
}

const live_objects_class *live_objects_next(const live_objects_class *previous) {
  return previous ? previous->next : atomic_load(&first);
}

int64_t live_objects_count(const live_objects_class *counted) {
  return atomic_load_explicit(&counted->live, memory_order_relaxed);
}
