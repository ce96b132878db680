/* Memory for arguments. It is always enough: a pointer is NULL or leads to all that the header lets the library read or
 * write there. */
#ifndef STRESS_GIVEN_H
#define STRESS_GIVEN_H

#include <ironbridge_memory.h>
#include <stddef.h>

#include "handles.h"

enum { BEYOND = 64, RESULT = 0xb3 };

/* A struct with memory behind it, in case its size says more. */
#define GIVEN(Type)                             \
  union {                                       \
    Type value;                                 \
    unsigned char bytes[sizeof(Type) + BEYOND]; \
  }

/* NULL now and then, else `pointer`. */
void *given_or_null(Call *call, void *pointer);

/* Gives the struct a size, mostly `known`; what lies behind that is filled with what crashes if it is read as a
 * pointer. */
void given_input(Call *call, void *bytes, size_t known);
/* The struct is all RESULT but for a size of the same kind. */
void given_output(Call *call, void *bytes, size_t known);
/* What the call may not have written is as it was, and what it must have cleared is 0. */
void given_output_check(const char *function, iron_status status, const void *bytes, size_t known);
/* Calls name(handle, a struct of Type). */
#define CALL_WITH_OUTPUT(call, name, handle, Type)                         \
  do {                                                                     \
    GIVEN(Type) output;                                                    \
    given_output(call, &output, sizeof(Type));                             \
    iron_status status = CALL(name, handle, given_or_null(call, &output)); \
    given_output_check(#name, status, &output, sizeof(Type));              \
  } while (0)

/* What a place for a handle or pointer holds before the call: it is none. */
void *given_result(void);
/* After the call: on failure the place must hold NULL. Returns what the call gave, else NULL; `result` is NULL where it
 * had no place. */
void *given_result_check(const char *function, iron_status status, void *result);

/* Static texts: ordinary, empty, long, with newlines, no UTF-8; or NULL. */
const char *given_text(Call *call);

#endif
