/* One Metal command buffer: recorded, committed, complete.
 *
 * While it is open, one thread at a time records into it (see commands.h). The commit gives it a serial number and the
 * device's order; it keeps everything it uses alive until it is complete. Submissions retire in serial order, whatever
 * the order in which Metal calls the completion handlers, so that a failure poisons what it should before a later
 * submission is judged by it. */
#ifndef IRON_BRIDGE_SUBMISSION_H
#define IRON_BRIDGE_SUBMISSION_H

#import <Metal/Metal.h>

#import "buffer.h"
#import "device.h"
#import "base/object.h"
#import "base/outcome.h"

/* What one operation does with one buffer. */
typedef struct IronUse {
  const char *argument; /* for messages */
  IronBuffer *buffer;
  iron_access access;
  bool whole; /* writes every byte */
} IronUse;

/* What a submission does with one buffer. */
typedef struct IronTouch {
  IronBuffer *buffer; /* +1 */
  bool reads, writes;
  bool whole;    /* every byte is written */
  bool inherits; /* reads what was there before this submission */
} IronTouch;

/* Who begins the work of what is committed, on the software device; a GPU always does its own. */
typedef enum IronRunner {
  IRON_RUNNER_DEVICE, /* the device, at once; a waiting thread may take over what it has not begun */
  IRON_RUNNER_CALLER  /* the thread that commits, which calls IronSubmissionsRun next; the device's sleeps on */
} IronRunner;

typedef enum IronEncoderKind { IRON_ENCODER_NONE = 0, IRON_ENCODER_COMPUTE, IRON_ENCODER_BLIT } IronEncoderKind;

enum { IRON_KNOWN_TOUCHES = 512 };

@interface IronSubmission : IronObject {
 @public
  IronDevice *device;
  IronOutcome *outcome;
  uint32_t operations;
  uint64_t bytes; /* touched by the operations */
  uint64_t serial;
  IronSubmission *next, *previous; /* among those in flight */

 @private
  bool open; /* not committed: counted in the device's open ones, its touches in the buffers' recorded ones */
  id<MTLCommandBuffer> command_buffer;
  id<MTLCommandEncoder> encoder; /* kept open between operations of its kind */
  IronEncoderKind encoder_kind;
  IronTouch *touches;
  size_t touch_count, touch_capacity;
  /* By the lowest bits of a handle's index: the number of a touch + 1, or 0. A hint. */
  uint32_t known[IRON_KNOWN_TOUCHES];
  /* When in flight, guarded by the device's monitor. */
  bool complete, retired;
  IronFailure failure;
  uint64_t device_start, device_end; /* nanoseconds */
  uint32_t place; /* among those of its outcome */
  IronSubmission *next_retired;
}

/* A submission with a new command buffer, autoreleased; nil, with *status reported, when there is none or too many are
 * open (IRON_ERROR_BUSY). One that is never committed is taken back when it goes. */
+ (IronSubmission *)openOn:(IronDevice *)device
                   outcome:(IronOutcome *)outcome
                     label:(NSString *)label
                    status:(iron_status *)status;

/* The encoder of that kind, ending the other one; nil, with the error reported, when the device gives none. */
- (id)encoder:(IronEncoderKind)kind;

/* Notes what an operation that is about to be encoded uses; all, or nothing when one is refused. */
- (iron_status)touch:(const IronUse *)uses count:(size_t)count;

/* Submits it, waiting first while too many are in flight. It cannot fail: what goes wrong shows in the outcome. */
- (void)commit:(IronRunner)runner;

@end

/* The calling thread is going to wait, without a deadline: for the outcome of commands that were committed for
 * `runner`, or until none in flight stands against an access to a buffer. It does what it can of that work when that is
 * the faster way;
 * work of a GPU it leaves alone. */
void IronSubmissionsRun(IronDevice *device, IronOutcome *outcome, IronRunner runner);
void IronSubmissionsRunFor(IronBuffer *buffer, iron_access access);

/* Refuses a wait for the device on a thread that completes its work right now, in a callback of the caller's: it would
 * wait for itself. */
iron_status IronSubmissionsCheckWait(void);

/* Waits until no thread holds a submission, of any device, that was committed. Who waits for a submission is woken
 * before its device is let go, so that the last reference to a device may be there a moment longer than its handles
 * are. */
void IronSubmissionsSettle(uint64_t timeout);

/* In the child of a fork: there is no such thread. */
void IronSubmissionsForget(void);

/* The buffer of `handle` when the open submission uses it and the handle still is one; else nil, and nothing is
 * reported. For the thread that records. */
IronBuffer *IronSubmissionFind(const IronSubmission *submission, const iron_buffer *handle);

#endif
