/* Chance, on purpose: who runs at the places where one thread hands something over to another.
 *
 * Threads that race meet in an order that a test sees once in a million runs, or never. While a device with
 * `schedule=SEED` in its configuration lives (softmetal.h), the threads that use the bridge or a software device run
 * one at a time. At each hand-over, which the sources mark with soft_schedule_point(), numbers drawn from the seed say
 * who goes on: the thread itself, or one of those that wait for their turn. So the same seed leads to the same order,
 * and another one to another.
 *
 * The order is the same as long as it depends on nothing else: on no deadline, and on nothing that threads do to each
 * other elsewhere. The thread that opens the device takes no part, nor do those that compute. Who has the turn and is
 * blocked where nobody knows of it loses it after a while, so that a schedule ends whenever the program does without
 * one.
 *
 * Without such a device a point is one load and a branch not taken. */
#ifndef SOFT_SCHEDULE_H
#define SOFT_SCHEDULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A thread that sleeps until another one wakes it. */
typedef struct soft_sleeper {
  const void *on;
  pthread_cond_t *called; /* NULL: who wakes it does that */
  bool woken;
  struct soft_sleeper *next;
} soft_sleeper;

extern _Atomic(bool) soft_schedule_active;
void soft_schedule_draw(void);
void soft_schedule_give_away(void);
void soft_schedule_rouse(const void *on);

static inline bool soft_schedule_is_on(void) {
  return __builtin_expect(atomic_load_explicit(&soft_schedule_active, memory_order_relaxed), 0);
}

/* A hand-over: something was, or is about to be, given to another thread or taken from it. Also where a thread begins
 * to take part. Called without locks; gates (monitor.h) may be held. */
static inline void soft_schedule_point(void) {
  if (soft_schedule_is_on()) soft_schedule_draw();
}

/* The calling thread is about to wait for what no thread that takes part does. It goes on at a point. Locks may be
 * held. */
static inline void soft_schedule_depart(void) {
  if (soft_schedule_is_on()) soft_schedule_give_away();
}

/* Round a sleep, until a call of `soft_schedule_wake` with the same address: the thread has no turn meanwhile, and
 * comes back before anybody else gets one. Locks may be held when it falls asleep, and none when it is awake. */
void soft_schedule_sleep(soft_sleeper *sleeper, const void *on);
void soft_schedule_awake(soft_sleeper *sleeper);
/* The same for who has nothing to sleep on: until it is woken, or a while is over. */
void soft_schedule_wait(const void *on);
static inline void soft_schedule_wake(const void *on) {
  if (soft_schedule_is_on()) soft_schedule_rouse(on);
}

/* From here on the threads take turns by this seed, as soon as that many wait for one. */
void soft_schedule_begin(uint64_t seed, uint64_t threads);
/* Called as often. While several have begun one, the first one counts. */
void soft_schedule_end(void);

/* In the child of a fork, which has one thread: no schedule. */
void soft_schedule_forget(void);

#ifdef __cplusplus
}
#endif
#endif
