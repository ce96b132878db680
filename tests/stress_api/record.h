/* What each thread is doing and has done: calls of each function, answers of each status, failures of the run. */
#ifndef STRESS_RECORD_H
#define STRESS_RECORD_H

#include <ironbridge_memory.h>
#include <stdbool.h>

#include "functions.h"

enum { MAX_THREADS = 64 };

/* Names the calling thread, from 1; 0 is the main thread. */
void record_thread(unsigned thread);
unsigned record_own_thread(void);
/* The next random call of this thread. */
void record_step(uint64_t phase, uint64_t step);

/* Around each call of the library. record_end returns the status, after looking at it: a status that is none,
 * IRON_ERROR_INTERNAL, and a refusal without a message are failures. */
void record_begin(Function function);
iron_status record_end(Function function, iron_status status);
#define CALL(name, ...) (record_begin(FUNCTION_##name), record_end(FUNCTION_##name, name(__VA_ARGS__)))

/* A callback of the library's was called. */
void record_callback(void);

/* Something is not as the header says. Printed with the place; after too many the process aborts. */
void failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t failures(void);

/* Whether a call that began more than `limit` seconds ago has not returned. */
bool record_is_stuck(unsigned limit);
/* What each thread is doing, to stderr, with `why` before it. Async-signal-safe. */
void record_report(const char *why);

uint64_t record_calls(void);
/* Whether every function that can has returned IRON_OK once. */
bool record_all_succeeded(void);
/* The table of calls and answers. A function that never succeeded, and could have, is a failure: then its arguments are
 * all wrong. */
void record_print(void);

#endif
