/* Objects of the runtime in Rust behind handles of the one table, and what else src/capi needs of this folder: errors
 * and structs are the same for both languages. `value` is an Arc as a pointer. */
#ifndef IRON_BRIDGE_RUST_OBJECT_H
#define IRON_BRIDGE_RUST_OBJECT_H

#include "ironbridge.h"

/* The beginning of an entry in Rust: messages of this thread start with the function's name from now on. `function` is
 * static. */
void IronRustEnter(const char *function);

/* Keeps `length` bytes of UTF-8 for iron_last_error(), behind the name of `function`, and returns `status`. */
iron_status IronRustReport(const char *function, iron_status status, const char *text, size_t length);

/* A handle of this type with one reference for `value`, which it owns: `drop` is called when the last reference is
 * given back, or at once when there is no handle. */
iron_status IronRustCreate(const char *type, void *value, void (*drop)(void *value), void **handle);

/* The handle's value, on which `keep` was called while it was certain to live; NULL, with IRON_ERROR_INVALID_HANDLE
 * reported, when there is none. */
void *IronRustAcquire(const char *type, const void *handle, const char *argument, void (*keep)(void *value));

/* Another handle for the device of `device`, with one reference: whatever becomes of the given one, it is not given
 * back. */
iron_status IronRustShareDevice(const void *device, const char *argument, void **own);

iron_status IronRustRetain(const char *type, const void *handle, const char *argument);
iron_status IronRustRelease(const char *type, const void *handle, const char *argument);

#endif
