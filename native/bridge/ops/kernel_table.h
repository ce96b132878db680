/* Which Metal kernel computes which operation on which types and shapes, and how it is dispatched. The kernels
 * themselves are in native/kernels/. */
#ifndef IRON_BRIDGE_KERNEL_TABLE_H
#define IRON_BRIDGE_KERNEL_TABLE_H

#include <stdbool.h>

#include "args.h"
#include "ironbridge.h"

struct IronOperand;

typedef enum IronOperation {
  IRON_OPERATION_MATMUL,         /* types: b; a, bias and c */
  IRON_OPERATION_MATMUL_FUSED,   /* the same; found by matmul's arguments and operands, done by fusion.m */
  IRON_OPERATION_MATMUL_FUSED_BYTES, /* the same, for activations that may be rounded to bytes */
  IRON_OPERATION_MATMUL_SLICES,  /* the same; done by matmul_slices.m */
  IRON_OPERATION_MATMUL_PANELS,  /* the same, for activations that may be rounded to bytes; done by matmul_panels.m */
  IRON_OPERATION_PANELS_BYTES,
  IRON_OPERATION_PANELS_SUM,
  IRON_OPERATION_SLICES_SUM,
  IRON_OPERATION_HALVES,         /* x; done by matmul_halves.m */
  IRON_OPERATION_MATMUL_HALVES,  /* the same */
  IRON_OPERATION_EMBEDDING,      /* table */
  IRON_OPERATION_ROPE,
  IRON_OPERATION_ROPE_STORE, /* the copies' dst; done by fusion.m */
  IRON_OPERATION_ATTENTION,       /* k and v */
  IRON_OPERATION_ATTENTION_MERGE, /* the second pass of an attention in pieces */
  IRON_OPERATION_ATTENTION_TEXTS,       /* k and v; the same of several texts, done by joined_attentions.m */
  IRON_OPERATION_ATTENTION_TEXTS_MERGE,
  IRON_OPERATION_ATTENTION_BACKWARD_Q,  /* the passes of attention's gradients */
  IRON_OPERATION_ATTENTION_BACKWARD_KV,
  IRON_OPERATION_ACCUMULATE, /* a product and c; the second pass of a matmul with alpha and beta */
  IRON_OPERATION_COPY,            /* src; dst */
  IRON_OPERATION_COPIES,          /* the same; done by joined_copies.m */
#define OP(NAME, ...) IRON_OPERATION_##NAME,
#define OP_OF_TYPES(NAME, ...) IRON_OPERATION_##NAME, /* its operands */
#include "ops.def"
  IRON_OPERATIONS /* how many there are */
} IronOperation;

/* Whether a kernel is meant for an operation with that argument struct (of args.h) and those operands, in the order of
 * their bindings. */
typedef bool (*IronCondition)(const void *arguments, const struct IronOperand *operands);

/* What the threads of a kernel share out among them. */
typedef struct IronGeometry {
  uint32_t tile[3]; /* points of the grid that one threadgroup does, width first; 0: a thread for each point */
  uint32_t threads; /* of a threadgroup, in one dimension; 0 for a thread for each point */
} IronGeometry;

typedef struct IronKernelEntry {
  IronOperation operation;
  iron_dtype types[2]; /* those of the operation's comment above; 0: fixed */
  IronCondition when;  /* NULL: always */
  const char *family;  /* native/kernels/FAMILY.metal */
  const char *name;
  IronGeometry geometry; /* the one that the kernel's own comment asks for */
} IronKernelEntry;

enum { IRON_KERNELS_AT_MOST = 512 };
extern const IronKernelEntry IronKernelTable[];

/* The index in the table of the first kernel that fits, or -1 when there is none. */
int IronKernelFind(IronOperation operation, iron_dtype first, iron_dtype second, const void *arguments,
                   const struct IronOperand *operands);
/* Whether an attention of few queries is attention_wide's. */
bool IronAttentionIsWide(const attention_args *arguments, const struct IronOperand *operands);
/* The threadgroup memory of a kernel of IRON_OPERATION_MATMUL_HALVES, in bytes. */
uint32_t IronHalvesMemory(int kernel);
/* How much of k a threadgroup of a kernel of IRON_OPERATION_MATMUL_SLICES takes, and its threadgroup memory. */
uint32_t IronSlicesWidth(int kernel);
uint32_t IronSlicesMemory(int kernel);
/* Whether a product's activations and weights are worth becoming halves. */
bool IronMatmulIsOfHalves(const matmul_args *arguments, const struct IronOperand *operands);
/* The threadgroup memory of a kernel of IRON_OPERATION_MATMUL_FUSED or ..._BYTES for a product, in bytes, and of how
 * many rows of b, at least, a threadgroup computes the products. */
uint32_t IronProductMemory(int kernel, const matmul_args *arguments);
uint32_t IronProductRows(int kernel);
/* Whether such a kernel is of family matvec_joined: it takes several matrices and no norm. */
bool IronProductIsJoined(int kernel);
/* Whether such a kernel may rotate what `groups` threadgroups compute of n rows: a thread rotates one pair. */
bool IronProductRotates(int kernel, uint32_t n, uint32_t groups);
/* Whether a kernel of IRON_OPERATION_MATMUL_FUSED_BYTES is one for devices that are faster by it. */
bool IronProductIsLong(int kernel);
/* Whether there is a kernel of an operation for these types at all. */
bool IronKernelExists(IronOperation operation, iron_dtype first, iron_dtype second);

#endif
