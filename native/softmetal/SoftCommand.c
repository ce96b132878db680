#include "SoftCommand.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Room for the tables and bytes of some dozen dispatches. */
enum { BLOCK_BYTES = 8160 };

/* Whether somebody watches the heap. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
enum { WATCHES_HEAP = __has_feature(address_sanitizer) };

typedef struct soft_table_block {
  struct soft_table_block *next;
  size_t used;
  _Alignas(max_align_t) unsigned char bytes[BLOCK_BYTES];
} soft_table_block;

_Static_assert(SOFT_MAX_BINDINGS * sizeof(soft_binding) <= BLOCK_BYTES, "a block holds a whole table");

typedef struct soft_kept_bytes {
  struct soft_kept_bytes *next;
  _Alignas(max_align_t) unsigned char bytes[];
} soft_kept_bytes;

static soft_chunk *add_chunk(soft_command_list *list) {
  soft_chunk *chunk = malloc(sizeof *chunk);
  if (!chunk) return NULL;
  chunk->next = NULL;
  chunk->count = 0;
  if (list->last_chunk) list->last_chunk->next = chunk;
  else list->first_chunk = chunk;
  list->last_chunk = chunk;
  return chunk;
}

soft_command *soft_command_list_add(soft_command_list *list) {
  soft_chunk *chunk = list->last_chunk;
  if (!chunk || chunk->count == SOFT_COMMANDS_PER_CHUNK) chunk = add_chunk(list);
  if (!chunk) return NULL;
  soft_command *command = &chunk->commands[chunk->count++];
  memset(command, 0, sizeof *command);
  return command;
}

/* `length` bytes of a block, at most BLOCK_BYTES. */
static void *take(soft_command_list *list, size_t length, size_t alignment) {
  soft_table_block *block = list->tables;
  size_t start = block ? (block->used + alignment - 1) / alignment * alignment : 0;
  if (!block || start > BLOCK_BYTES - length) {
    block = malloc(sizeof *block);
    if (!block) return NULL;
    block->next = list->tables;
    list->tables = block;
    start = 0;
  }
  block->used = start + length;
  return block->bytes + start;
}

void *soft_command_list_table(soft_command_list *list, size_t count, size_t size) {
  void *table = take(list, count * size, _Alignof(soft_binding));
  return table ? memset(table, 0, count * size) : NULL;
}

void *soft_command_list_keep(soft_command_list *list, const void *bytes, size_t length) {
  if (!WATCHES_HEAP && length <= BLOCK_BYTES) {
    void *copy = take(list, length, _Alignof(max_align_t));
    return copy ? memcpy(copy, bytes, length) : NULL;
  }
  soft_kept_bytes *kept = malloc(sizeof *kept + length);
  if (!kept) return NULL;
  memcpy(kept->bytes, bytes, length);
  kept->next = list->bytes;
  list->bytes = kept;
  return kept->bytes;
}

/* Commands `first` to `last`: all but the first may overlap the one before. */
static void turn(soft_command **commands, size_t first, size_t last) {
  commands[first]->concurrent = true;
  for (size_t low = first, high = last; low < high; low++, high--) {
    soft_command kept = *commands[low];
    *commands[low] = *commands[high];
    *commands[high] = kept;
  }
  commands[first]->concurrent = false;
}

bool soft_command_list_turn(soft_command_list *list) {
  size_t count = 0, first = 0;
  for (const soft_chunk *chunk = list->first_chunk; chunk; chunk = chunk->next) count += chunk->count;
  soft_command **commands = malloc((count + 1) * sizeof *commands);
  if (!commands) return false;
  count = 0;
  for (const soft_chunk *chunk = list->first_chunk; chunk; chunk = chunk->next)
    for (size_t index = 0; index < chunk->count; index++)
      commands[count++] = (soft_command *)&chunk->commands[index];
  for (size_t last = 0; last < count; last++) {
    if (last + 1 < count && commands[last + 1]->concurrent) continue;
    turn(commands, first, last);
    first = last + 1;
  }
  free(commands);
  return true;
}

void soft_command_list_clear(soft_command_list *list) {
  const soft_chunk *chunk = list->first_chunk;
  while (chunk) {
    const soft_chunk *next = chunk->next;
    free((void *)chunk);
    chunk = next;
  }
  soft_table_block *block = list->tables;
  while (block) {
    soft_table_block *next = block->next;
    free(block);
    block = next;
  }
  soft_kept_bytes *kept = list->bytes;
  while (kept) {
    soft_kept_bytes *next = kept->next;
    free(kept);
    kept = next;
  }
  *list = (soft_command_list){0};
}
