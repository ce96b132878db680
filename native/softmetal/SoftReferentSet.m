#import "SoftReferentSet.h"

#include <stdlib.h>

enum { SMALLEST = 64 };

/* Where the search for it begins. Knuth, "The Art of Computer Programming" 3, section 6.4, multiplicative hashing; its
 * best bits are the upper ones. */
static size_t first_place(const soft_referent_set *set, const void *referent) {
  uint64_t mixed = (uint64_t)(uintptr_t)referent * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(mixed >> 32) & (set->capacity - 1);
}

/* Its place, or the free one where it belongs. */
static uint32_t *place_of(const soft_referent_set *set, const void *referent) {
  size_t place = first_place(set, referent);
  while (set->places[place] && set->entries[set->places[place] - 1].referent != referent)
    place = (place + 1) & (set->capacity - 1);
  return &set->places[place];
}

static bool grow(soft_referent_set *set) {
  size_t capacity = set->capacity ? 2 * set->capacity : SMALLEST;
  uint32_t *places = calloc(capacity, sizeof *places);
  soft_referent_entry *entries = realloc(set->entries, capacity / 2 * sizeof *entries);
  if (entries) set->entries = entries;
  if (!places || !entries) {
    free(places);
    return false;
  }
  free(set->places);
  set->places = places;
  set->capacity = capacity;
  for (size_t index = 0; index < set->count; index++)
    *place_of(set, entries[index].referent) = (uint32_t)index + 1;
  return true;
}

bool soft_referent_set_add(soft_referent_set *set, SoftReferent *referent, id owner) {
  if (set->count == set->capacity / 2 && !grow(set)) return false;
  uint32_t *place = place_of(set, referent);
  if (*place) return true;
  set->entries[set->count++] = (soft_referent_entry){.referent = [referent retain], .owner = [owner retain]};
  *place = (uint32_t)set->count;
  return true;
}

void soft_referent_set_clear(soft_referent_set *set) {
  soft_referent_set old = *set;
  *set = (soft_referent_set){0};
  for (size_t index = 0; index < old.count; index++) {
    [old.entries[index].referent release];
    [old.entries[index].owner release];
  }
  free(old.entries);
  free(old.places);
}
