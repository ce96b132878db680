/* The compute threads of the CPU backend, which all its devices share. Metal has no words for them. The functions are
 * those of src/backend/cpu/backend.rs; texts come from malloc, and the caller frees them. */
#ifndef SOFTMETAL_CPU_H
#define SOFTMETAL_CPU_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The threads that compute, the one that brings the work among them. They can change at any time. */
uint32_t soft_cpu_threads(void);
/* SOFT_INVALID: not from 1 to the most that there may be; SOFT_OUT_OF_MEMORY: the system gave fewer, which are
 * used. */
soft_outcome soft_cpu_set_threads(uint32_t threads, char **text);
/* Pins the compute threads to these processors, in turn; none: they may run on any again. SOFT_INVALID: not a processor
 * of this process; SOFT_UNSUPPORTED: this system cannot do it. */
soft_outcome soft_cpu_pin_threads(const uint32_t *processors, size_t count, char **text);

#ifdef __cplusplus
}
#endif
#endif
