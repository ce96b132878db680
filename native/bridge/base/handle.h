/* The handles of the C ABI: tickets for a slot of one table, not addresses.
 *
 * A ticket holds its kind, the slot's index and the slot's generation, which moves on when the slot's last reference is
 * given back. So a NULL, released, foreign or invented handle is known as such without touching memory that may be
 * gone. */
#ifndef IRON_BRIDGE_HANDLE_H
#define IRON_BRIDGE_HANDLE_H

#import <Foundation/Foundation.h>

#include "ironbridge.h"

typedef enum IronHandleKind {
  IRON_HANDLE_DEVICE = 1,
  IRON_HANDLE_BUFFER = 2,
  IRON_HANDLE_COMMANDS = 3,
  IRON_HANDLE_LIBRARY = 4,
  IRON_HANDLE_KERNEL = 5,
  /* objects of Rust's: rust_object.h */
  IRON_HANDLE_MODEL_FILE = 6,
  IRON_HANDLE_MODEL = 7,
  IRON_HANDLE_TOKENIZER = 8,
  IRON_HANDLE_DECODER = 9,
  IRON_HANDLE_CHAT = 10,
  IRON_HANDLE_SESSION = 11,
  IRON_HANDLE_SAMPLER = 12,
  IRON_HANDLE_GENERATION = 13,
  IRON_HANDLE_WRITER = 14,
  IRON_HANDLE_CANCEL = 15
} IronHandleKind;

/* The kind whose handles have this type: "iron_model". */
IronHandleKind IronHandleKindOf(const char *type);

/* A handle with one reference for `object`, which it retains. */
iron_status IronHandleCreate(id object, IronHandleKind kind, void **handle);

/* The handle's object, retained and autoreleased, so that a release by another thread cannot take it away; nil, with
 * IRON_ERROR_INVALID_HANDLE reported, when there is none. `argument` is the name the message gives the handle. */
id IronHandleAcquire(const void *handle, IronHandleKind kind, const char *argument);

/* The same, retained only: for the caller to release. */
id IronHandleTake(const void *handle, IronHandleKind kind, const char *argument);

/* A number below the number of handles that ever were alive at once; of anything that is no handle some number. */
uint32_t IronHandleIndex(const void *handle);

/* Whether a handle that the caller knows to have been one still is; without a lock. */
bool IronHandleIsLive(const void *handle);

iron_status IronHandleRetain(const void *handle, IronHandleKind kind, const char *argument);
iron_status IronHandleRelease(const void *handle, IronHandleKind kind, const char *argument);

/* The references of a handle; 0 when it is none any more. */
uint64_t IronHandleReferences(const void *handle, IronHandleKind kind);

/* In the child of a fork: no thread is left that could hold a lock of the table. */
void IronHandlesForget(void);

/* References given out and not given back, of all kinds. */
int64_t IronHandleLiveCount(void);

#endif
