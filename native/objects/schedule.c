#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* clock_gettime, pthread_condattr_setclock, gettid */
#endif

#include "schedule.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

_Atomic(bool) soft_schedule_active;

/* A thread that waits for its turn; lies on its stack. */
typedef struct Waiter {
  pthread_cond_t called;
  uint64_t thread;
  uint64_t given; /* its turn; 0: not yet */
  int64_t rank;
  struct Waiter *next;
} Waiter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static unsigned begun;
static uint64_t schedules;    /* so far */
static uint64_t awaited;      /* threads before the first turn */
static uint64_t state;        /* of the numbers drawn */
/* Two kinds of schedules. 0: at a point everybody is as likely to go on as any other, which finds what takes many
 * changes. Else whoever has the highest rank goes on, and at one point in points_per_fall the thread there falls
 * behind all others, until they sleep or fall as well: what takes one thread stopped at the wrong place for long
 * (Burckhardt et al.: A randomized scheduler with probabilistic guarantees of finding bugs, 2010). */
static uint64_t points_per_fall;
static int64_t lowest;         /* rank given so far */
static Waiter *first;          /* by the threads' numbers */
static unsigned waiters;
static soft_sleeper *sleepers;
static unsigned expected;      /* that were woken, and are on their way */
static uint64_t turn;          /* whose: 0 is nobody's, and no number comes twice */
static uint64_t turns;         /* so far */

/* The calling thread's turn, when it is the same. */
static _Thread_local uint64_t mine;
/* Its rank in the schedule of that number. */
static _Thread_local int64_t rank;
static _Thread_local uint64_t ranked;
/* The schedule that it began, and takes no part in. */
static _Thread_local uint64_t conducts;

/* splitmix64: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t draw(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Grows from one thread to the next that the program starts, so that it is the same one in the next run. */
static uint64_t thread_number(void) {
#ifdef __APPLE__
  uint64_t number = 0;
  pthread_threadid_np(NULL, &number);
  return number;
#else
  static _Thread_local uint64_t number;
  if (number == 0) number = (uint64_t)gettid();
  return number;
#endif
}

#pragma mark Turns

static void leave(Waiter *waiter) {
  Waiter **link = &first;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
  waiters -= 1;
}

static Waiter *choose(void) {
  Waiter *chosen = first;
  if (points_per_fall == 0) {
    for (uint64_t place = draw() % waiters; place > 0; place--) chosen = chosen->next;
  } else {
    for (Waiter *each = first; each; each = each->next)
      if (each->rank > chosen->rank) chosen = each;
  }
  return chosen;
}

/* The first turn: until now nobody has a rank. */
static void start(void) {
  awaited = 0;
  for (Waiter *each = first; each; each = each->next) each->rank = (int64_t)(draw() >> 2);
}

/* Gives a turn that is nobody's away. Not while somebody who may have it is on the way. */
static void dispatch(void) {
  if (turn != 0 || expected > 0 || waiters == 0 || waiters < awaited) return;
  if (awaited > 0) start();
  Waiter *chosen = choose();
  leave(chosen);
  chosen->given = turn = ++turns;
  pthread_cond_signal(&chosen->called);
}

/* Who has the turn is blocked, or who is on the way does not come. */
static void lose_patience(void) {
  turn = 0;
  expected = 0;
  awaited = awaited > 0 ? 1 : 0;
  for (soft_sleeper *each = sleepers; each; each = each->next) each->woken = false;
  dispatch();
}

/* False when it was for too long. */
static bool wait_a_while(Waiter *waiter) {
  enum { PATIENCE = 50000000, SECOND = 1000000000 };
  struct timespec limit;
#ifdef __APPLE__
  limit = (struct timespec){.tv_nsec = PATIENCE};
  return pthread_cond_timedwait_relative_np(&waiter->called, &lock, &limit) != ETIMEDOUT;
#else
  clock_gettime(CLOCK_MONOTONIC, &limit);
  limit.tv_nsec += PATIENCE;
  if (limit.tv_nsec >= SECOND) {
    limit.tv_nsec -= SECOND;
    limit.tv_sec += 1;
  }
  return pthread_cond_timedwait(&waiter->called, &lock, &limit) != ETIMEDOUT;
#endif
}

static void init_waiter(Waiter *waiter) {
  *waiter = (Waiter){.thread = thread_number(), .rank = rank};
#ifdef __APPLE__
  pthread_cond_init(&waiter->called, NULL);
#else
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&waiter->called, &attributes);
  pthread_condattr_destroy(&attributes);
#endif
}

/* Until the calling thread, which has no turn, has one. */
static void queue_up(void) {
  Waiter waiter;
  init_waiter(&waiter);
  Waiter **link = &first;
  while (*link && (*link)->thread < waiter.thread) link = &(*link)->next;
  waiter.next = *link;
  *link = &waiter;
  waiters += 1;
  dispatch();
  while (!waiter.given && soft_schedule_is_on()) {
    uint64_t seen = turns;
    if (!wait_a_while(&waiter) && !waiter.given && turns == seen) lose_patience();
  }
  if (waiter.given)
    mine = waiter.given; /* and not `turn`: somebody may have lost patience since */
  else
    leave(&waiter);
  rank = waiter.rank;
  pthread_cond_destroy(&waiter.called);
}

static bool have_turn(void) { return turn != 0 && turn == mine; }

#pragma mark Threads

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

static void thread_ends(void *unused) {
  (void)unused;
  soft_schedule_give_away();
}

static void make_end_key(void) { pthread_key_create(&end_key, thread_ends); }

/* Whether the calling thread takes part. One that does so for the first time gets a rank, and gives its turn away when
 * it ends. */
static bool takes_part(void) {
  if (!soft_schedule_is_on() || conducts == schedules) return false;
  if (ranked == schedules) return true;
  ranked = schedules;
  rank = awaited > 0 ? 0 : (int64_t)(draw() >> 2);
  pthread_once(&end_once, make_end_key);
  pthread_setspecific(end_key, &end_key);
  return true;
}

void soft_schedule_draw(void) {
  pthread_mutex_lock(&lock);
  if (takes_part()) {
    if (have_turn()) {
      turn = 0;
      if (points_per_fall > 0 && draw() % points_per_fall == 0) rank = --lowest;
    }
    queue_up();
  }
  pthread_mutex_unlock(&lock);
}

void soft_schedule_give_away(void) {
  pthread_mutex_lock(&lock);
  if (soft_schedule_is_on() && have_turn()) {
    turn = 0;
    dispatch();
  }
  pthread_mutex_unlock(&lock);
}

#pragma mark Sleepers

static void fall_asleep(soft_sleeper *sleeper, const void *on, pthread_cond_t *called) {
  *sleeper = (soft_sleeper){.on = on, .called = called, .next = sleepers};
  sleepers = sleeper;
  if (soft_schedule_is_on() && have_turn()) {
    turn = 0;
    dispatch();
  }
}

static void wake_up(soft_sleeper *sleeper) {
  soft_sleeper **link = &sleepers;
  while (*link != sleeper) link = &(*link)->next;
  *link = sleeper->next;
  if (sleeper->woken) expected -= 1;
  if (takes_part())
    queue_up();
  else
    dispatch();
}

void soft_schedule_sleep(soft_sleeper *sleeper, const void *on) {
  pthread_mutex_lock(&lock);
  fall_asleep(sleeper, on, NULL);
  pthread_mutex_unlock(&lock);
}

void soft_schedule_awake(soft_sleeper *sleeper) {
  pthread_mutex_lock(&lock);
  wake_up(sleeper);
  pthread_mutex_unlock(&lock);
}

void soft_schedule_wait(const void *on) {
  Waiter waiter;
  soft_sleeper sleeper;
  init_waiter(&waiter);
  pthread_mutex_lock(&lock);
  fall_asleep(&sleeper, on, &waiter.called);
  if (!sleeper.woken) wait_a_while(&waiter);
  wake_up(&sleeper);
  pthread_mutex_unlock(&lock);
  pthread_cond_destroy(&waiter.called);
}

void soft_schedule_rouse(const void *on) {
  pthread_mutex_lock(&lock);
  for (soft_sleeper *each = sleepers; each; each = each->next) {
    if (each->on != on || each->woken) continue;
    each->woken = true;
    expected += 1;
    if (each->called) pthread_cond_signal(each->called);
  }
  pthread_mutex_unlock(&lock);
}

#pragma mark Schedules

void soft_schedule_begin(uint64_t seed, uint64_t threads) {
  static const uint64_t kinds[] = {0, 4, 16, 64};
  pthread_mutex_lock(&lock);
  if (begun++ == 0) {
    conducts = ++schedules;
    state = seed;
    points_per_fall = kinds[draw() % (sizeof kinds / sizeof *kinds)];
    lowest = 0;
    awaited = threads;
    turn = 0;
    atomic_store(&soft_schedule_active, true);
  }
  pthread_mutex_unlock(&lock);
}

void soft_schedule_end(void) {
  pthread_mutex_lock(&lock);
  if (--begun == 0) {
    atomic_store(&soft_schedule_active, false);
    turn = 0;
    expected = 0;
    for (soft_sleeper *each = sleepers; each; each = each->next) each->woken = false;
    for (Waiter *each = first; each; each = each->next) pthread_cond_signal(&each->called);
  }
  pthread_mutex_unlock(&lock);
}

void soft_schedule_forget(void) {
  pthread_mutex_init(&lock, NULL);
  begun = 0;
  first = NULL;
  waiters = 0;
  sleepers = NULL;
  expected = 0;
  turn = 0;
  atomic_store(&soft_schedule_active, false);
}
