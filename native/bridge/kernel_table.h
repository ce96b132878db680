/* Which Metal kernel computes which operation on which types. The kernels themselves are in native/kernels/. */
#ifndef IRON_BRIDGE_KERNEL_TABLE_H
#define IRON_BRIDGE_KERNEL_TABLE_H

#include "ironbridge.h"

typedef enum IronOperation {
  IRON_OPERATION_MATMUL,    /* types: b; a, bias and c */
  IRON_OPERATION_EMBEDDING, /* table */
  IRON_OPERATION_RMS_NORM,
  IRON_OPERATION_ROPE,
  IRON_OPERATION_ATTENTION, /* k and v */
  IRON_OPERATION_ADD,
  IRON_OPERATION_SILU_MUL,
  IRON_OPERATION_SOFTMAX,
  IRON_OPERATION_COPY, /* src; dst */
  IRON_OPERATION_ARGMAX
} IronOperation;

typedef struct IronKernelEntry {
  IronOperation operation;
  iron_dtype types[2]; /* those of the operation's comment above; 0: fixed */
  const char *family;  /* native/kernels/FAMILY.metal */
  const char *name;
} IronKernelEntry;

enum { IRON_KERNELS_AT_MOST = 128 };
extern const IronKernelEntry IronKernelTable[];

/* The index in the table, or -1 when there is no such kernel. */
int IronKernelFind(IronOperation operation, iron_dtype first, iron_dtype second);

#endif
