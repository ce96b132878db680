/* A test program's frame. Each CASE runs in a pool of its own and must check something; when it is over, no object of
 * ours and nothing of the backend's may be left. */
#ifndef HARNESS_H
#define HARNESS_H

#import <Foundation/Foundation.h>

#include <stdbool.h>

typedef struct test_case {
  const char *name;
  void (*body)(void);
  struct test_case *next;
} test_case;

void harness_register(test_case *added);
/* Counts a check and, when it does not hold, prints where. */
void harness_check(bool holds, const char *what, const char *file, int line);
/* Runs every case, or the one that is named, and returns the exit status. */
int harness_run(const char *only);
/* Polls for up to ten seconds. */
bool harness_becomes_true(bool (^condition)(void));
/* Live objects of all our classes, and the backend's. */
int64_t harness_live(void);

#define CASE(case_name) \
  static void case_name(void); \
  __attribute__((constructor)) static void register_##case_name(void) { \
    static test_case added = {#case_name, case_name, NULL}; \
    harness_register(&added); \
  } \
  static void case_name(void)

#define CHECK(condition) harness_check((condition), #condition, __FILE__, __LINE__)

/* `text` contains `part`. */
#define CHECK_TEXT(text, part) \
  do { \
    NSString *said_ = (text); \
    bool found_ = said_ && [said_ rangeOfString:(part)].location != NSNotFound; \
    harness_check(found_, #text " contains " #part, __FILE__, __LINE__); \
    if (!found_) printf("    it is: %s\n", [said_ UTF8String]); \
  } while (0)

/* The statement raises that exception, and its reason contains each of the two texts. */
#define RAISES(exception, selector, part, ...) \
  do { \
    NSException *raised_ = nil; \
    @try { \
      __VA_ARGS__; \
    } @catch (NSException * caught_) { \
      raised_ = caught_; \
    } \
    bool right_ = [[raised_ name] isEqualToString:(exception)]; \
    harness_check(right_, #__VA_ARGS__ " raises " #exception, __FILE__, __LINE__); \
    CHECK_TEXT([raised_ reason], (selector)); \
    CHECK_TEXT([raised_ reason], (part)); \
  } while (0)
#define RAISES_INVALID(selector, part, ...) RAISES(NSInvalidArgumentException, selector, part, __VA_ARGS__)
#define RAISES_STATE(selector, part, ...) RAISES(NSInternalInconsistencyException, selector, part, __VA_ARGS__)

#endif
