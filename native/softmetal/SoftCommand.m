#import "SoftCommand.h"

#import "SoftError.h"
#import "SoftFunction.h"
#import "SoftPipeline.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Some 20 KiB: small enough for the heap to keep it for the next command buffer. */
enum { COMMANDS_IN_A_CHUNK = 32 };

typedef struct soft_command_chunk {
  struct soft_command_chunk *next;
  size_t count;
  soft_command commands[COMMANDS_IN_A_CHUNK];
} soft_command_chunk;

typedef struct soft_kept_bytes {
  struct soft_kept_bytes *next;
  _Alignas(max_align_t) unsigned char bytes[];
} soft_kept_bytes;

static soft_command_chunk *add_chunk(soft_command_list *list) {
  soft_command_chunk *chunk = malloc(sizeof *chunk);
  if (!chunk) return NULL;
  chunk->next = NULL;
  chunk->count = 0;
  *(list->last_chunk ? &list->last_chunk->next : &list->first_chunk) = chunk;
  list->last_chunk = chunk;
  return chunk;
}

soft_command *soft_command_list_add(soft_command_list *list) {
  soft_command_chunk *chunk = list->last_chunk;
  if (!chunk || chunk->count == COMMANDS_IN_A_CHUNK) chunk = add_chunk(list);
  if (!chunk) return NULL;
  soft_command *command = &chunk->commands[chunk->count++];
  memset(command, 0, sizeof *command);
  return command;
}

void *soft_command_list_keep(soft_command_list *list, const void *bytes, size_t length) {
  soft_kept_bytes *kept = malloc(sizeof *kept + length);
  if (!kept) return NULL;
  memcpy(kept->bytes, bytes, length);
  kept->next = list->bytes;
  list->bytes = kept;
  return kept->bytes;
}

static soft_outcome run_dispatch(SoftKernel *kernel, const soft_dispatch *arguments, const soft_executor *executor,
                                 NSString **text) {
  char *detail = NULL;
  SoftFunction *function = [kernel function];
  soft_outcome outcome = executor->execute([function handle], arguments, &detail);
  if (outcome == SOFT_OK) return SOFT_OK;
  NSString *said = soft_executor_text(executor, detail, @"the executor gave no reason");
  *text = [NSString stringWithFormat:@"kernel '%@': %@", [function name], said];
  return outcome;
}

static soft_outcome run(const soft_command *command, const soft_executor *executor, NSString **text) {
  switch (command->kind) {
    case SOFT_COMMAND_DISPATCH:
      return run_dispatch(command->dispatch.kernel, &command->dispatch.arguments, executor, text);
    case SOFT_COMMAND_COPY:
      memcpy(command->copy.destination, command->copy.source, command->copy.length);
      return SOFT_OK;
    case SOFT_COMMAND_FILL:
      memset(command->fill.destination, command->fill.value, command->fill.length);
      return SOFT_OK;
  }
  *text = @"a command of no kind";
  return SOFT_INTERNAL;
}

soft_outcome soft_command_list_run(const soft_command_list *list, const soft_executor *executor, NSString **text) {
  for (const soft_command_chunk *chunk = list->first_chunk; chunk; chunk = chunk->next) {
    for (size_t index = 0; index < chunk->count; index++) {
      soft_outcome outcome = run(&chunk->commands[index], executor, text);
      if (outcome != SOFT_OK) return outcome;
    }
  }
  return SOFT_OK;
}

void soft_command_list_clear(soft_command_list *list) {
  soft_command_chunk *chunk = list->first_chunk;
  while (chunk) {
    soft_command_chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
  soft_kept_bytes *kept = list->bytes;
  while (kept) {
    soft_kept_bytes *next = kept->next;
    free(kept);
    kept = next;
  }
  *list = (soft_command_list){0};
}
