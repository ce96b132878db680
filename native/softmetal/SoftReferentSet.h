/* What the commands of a command buffer refer to, each once. Plain memory: a pass of a language model refers to some
 * hundred buffers, and each insertion into an NSMutableSet is several messages. */
#ifndef SOFT_REFERENT_SET_H
#define SOFT_REFERENT_SET_H

#import "SoftReferent.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct soft_referent_entry {
  SoftReferent *referent; /* +1 */
  id owner;               /* +1, or nil: the public object, where it is kept, too */
} soft_referent_entry;

/* Zeroed, it is empty. */
typedef struct soft_referent_set {
  soft_referent_entry *entries;
  size_t count;
  uint32_t *places; /* of each hash: the number of an entry + 1, or 0 */
  size_t capacity;  /* of `places`; entries are half of that at most */
} soft_referent_set;

/* Adds it unless it is there. false: there is no memory, and nothing has changed. */
bool soft_referent_set_add(soft_referent_set *set, SoftReferent *referent, id owner);
/* Lets go of all of them and leaves an empty set. */
void soft_referent_set_clear(soft_referent_set *set);

#endif
