#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np */
#endif
#include "SoftStack.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct soft_stack {
  uintptr_t low, high;
} soft_stack;

/* False when the system does not say. */
static bool measure(soft_stack *stack) {
#ifdef __APPLE__
  stack->high = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
  stack->low = stack->high - pthread_get_stacksize_np(pthread_self());
#else
  pthread_attr_t attributes;
  void *lowest;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  stack->low = (uintptr_t)lowest;
  stack->high = stack->low + size;
#endif
  return true;
}

bool soft_stack_has_room(void) {
  enum { NEEDED = 512 << 10 };
  static _Thread_local soft_stack stack; /* high 0: not measured */
  if (stack.high == 0 && !measure(&stack)) return false;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here < stack.high && here > stack.low && here - stack.low >= NEEDED;
}
