/* The recorded operations of a command buffer, as a backend takes them (backend.h), and the memory that they point to.
 * Plain memory and no objects: a token of a language model is hundreds of them, made on one thread and given back on
 * another between two kernels. */
#ifndef SOFT_COMMAND_H
#define SOFT_COMMAND_H

#include "backend.h"

#include <stdbool.h>

/* Zeroed, it is empty. */
typedef struct soft_command_list {
  soft_chunk *first_chunk, *last_chunk;
  struct soft_table_block *tables; /* the newest one first */
  struct soft_kept_bytes *bytes;
} soft_command_list;

/* A zeroed command at the end of the list, or NULL when there is no memory. */
soft_command *soft_command_list_add(soft_command_list *list);
/* A zeroed table of `count` entries of `size` bytes, or NULL when there is no memory. At most SOFT_MAX_BINDINGS
 * bindings fit. */
void *soft_command_list_table(soft_command_list *list, size_t count, size_t size);
/* A copy of bytes that commands of the list point into, or NULL when there is no memory. Under AddressSanitizer each is
 * a block of its own, so that a kernel that leaves it is seen. */
void *soft_command_list_keep(soft_command_list *list, const void *bytes, size_t length);
/* Turns the order of the commands around wherever they may overlap, so that one that relies on another shows. false:
 * there is no memory, and nothing has changed. */
bool soft_command_list_turn(soft_command_list *list);
/* Frees all of it and leaves an empty list. */
void soft_command_list_clear(soft_command_list *list);

#endif
