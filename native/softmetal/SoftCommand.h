/* The recorded operations of a command buffer, which keeps alive what they refer to. Plain memory and no objects: a
 * token of a language model is hundreds of them, made on one thread and given back on another between two kernels. */
#ifndef SOFT_COMMAND_H
#define SOFT_COMMAND_H

#import "SoftObject.h"
#include "executor.h"

@class SoftKernel;

typedef enum soft_command_kind { SOFT_COMMAND_DISPATCH, SOFT_COMMAND_COPY, SOFT_COMMAND_FILL } soft_command_kind;

typedef struct soft_command {
  soft_command_kind kind;
  union {
    struct {
      SoftKernel *kernel;
      soft_dispatch arguments;
    } dispatch;
    struct {
      const void *source;
      void *destination;
      size_t length;
    } copy;
    struct {
      void *destination;
      size_t length;
      uint8_t value;
    } fill;
  };
} soft_command;

/* Zeroed, it is empty. */
typedef struct soft_command_list {
  struct soft_command_chunk *first_chunk, *last_chunk;
  struct soft_kept_bytes *bytes;
} soft_command_list;

/* A zeroed command at the end of the list, or NULL when there is no memory. */
soft_command *soft_command_list_add(soft_command_list *list);
/* A copy of bytes that commands of the list point into, or NULL when there is no memory. Each is a block of its own, so
 * that a kernel that leaves it is seen by whoever watches the heap. */
void *soft_command_list_keep(soft_command_list *list, const void *bytes, size_t length);
/* Runs the commands in their order, up to the first that fails. On anything but SOFT_OK, *text (autoreleased) says
 * what. */
soft_outcome soft_command_list_run(const soft_command_list *list, const soft_executor *executor, NSString **text);
/* Frees all of it and leaves an empty list. */
void soft_command_list_clear(soft_command_list *list);

#endif
