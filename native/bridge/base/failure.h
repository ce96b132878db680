/* Why a submission failed: what the device said, kept until somebody asks. */
#ifndef IRON_BRIDGE_FAILURE_H
#define IRON_BRIDGE_FAILURE_H

#import <Foundation/Foundation.h>

#include "ironbridge.h"

typedef struct IronFailure {
  iron_status status; /* IRON_OK: none */
  char text[256];
} IronFailure;

/* The failure that a command buffer's error stands for. */
IronFailure IronFailureFromError(NSError *error);
IronFailure IronFailureMake(iron_status status, const char *text);

/* The failures that nobody waited for, oldest first. When there are more than fit, the newest are dropped: the oldest
 * explain the others. */
enum { IRON_FAILURES_KEPT = 8 };
typedef struct IronFailures {
  IronFailure kept[IRON_FAILURES_KEPT];
  uint32_t count;
} IronFailures;

void IronFailuresAdd(IronFailures *failures, const IronFailure *failure);
/* Takes the oldest one out; its status is IRON_OK when there is none. */
IronFailure IronFailuresTake(IronFailures *failures);

#endif
