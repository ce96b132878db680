/* A driver of NVIDIA's, as far as ironbridge uses one (src/backend/nvidia/driver.rs), for a GPU that computes nothing:
 * what is left is what the host does. Its memory is the host's, and its kernels take as long as they are told to. The
 * declarations are those of the CUDA driver API's manual, with pointers and numbers in place of its types.
 *
 *   cc -shared -fPIC -O2 -o libcuda.so.1 benches/idle_gpu.c
 *
 * IDLE_GPU_CAPABILITY: its compute capability, 9 without it.
 * In nanoseconds, 0 without it: IDLE_GPU_KERNEL for a kernel, IDLE_GPU_CHANGE for telling the driver of a changed node,
 * twice that for a launch by itself, IDLE_GPU_LAUNCH for the launch of a graph. */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_READY = 600, PAGE = 4096, ASKED = 300 };

static const uint64_t MEMORY = UINT64_C(140) << 30;

static uint64_t kernel_time, change_time, launch_time, capability;
/* When the last kernel ends that was started. One stream is used at a time. */
static uint64_t busy_until;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void spin(uint64_t duration) {
  uint64_t end = now() + duration;
  while (duration && now() < end) {
  }
}

static int start(uint64_t kernels) {
  uint64_t begin = now();
  busy_until = (begin > busy_until ? begin : busy_until) + kernels * kernel_time;
  return SUCCESS;
}

static uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  kernel_time = setting("IDLE_GPU_KERNEL", 0);
  change_time = setting("IDLE_GPU_CHANGE", 0);
  launch_time = setting("IDLE_GPU_LAUNCH", 0);
  capability = setting("IDLE_GPU_CAPABILITY", 9);
  return SUCCESS;
}

/* Something that the caller only hands back: `number` counts the kernels of a graph, or is when an event occurs. */
typedef struct Thing {
  uint64_t number;
} Thing;

static int create(Thing **thing) {
  *thing = calloc(1, sizeof **thing);
  return *thing ? SUCCESS : OUT_OF_MEMORY;
}

static int destroy(Thing *thing) {
  free(thing);
  return SUCCESS;
}

/* The device */

int cuGetErrorString(int status, const char **text) {
  (void)status;
  *text = "a GPU that computes nothing has no such error";
  return SUCCESS;
}

int cuDriverGetVersion(int *version) {
  *version = 12060;
  return SUCCESS;
}

int cuDeviceGetCount(int *count) {
  *count = 1;
  return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "GPU that computes nothing");
  return SUCCESS;
}

/* CUdevice_attribute, of an H200; what is not listed is there. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 1: *value = 1024; break;    /* threads of a block */
    case 10: *value = 32; break;     /* threads of a warp */
    case 16: *value = 132; break;    /* multiprocessors */
    case 75: *value = (int)capability; break;
    case 76: *value = 0; break;      /* the part of it behind the point */
    case 97: *value = 232448; break; /* shared memory of a block */
    default: *value = 1;
  }
  return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = MEMORY;
  return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  static Thing only;
  (void)device;
  *context = &only;
  return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, SUCCESS; }
int cuCtxPushCurrent_v2(void *context) { return (void)context, SUCCESS; }
int cuCtxPopCurrent_v2(void **context) { return cuDevicePrimaryCtxRetain(context, 0); }

/* Modules */

int cuModuleLoadDataEx(Thing **module, const void *image, unsigned count, const int *options, void *const *values) {
  (void)image, (void)count, (void)options, (void)values;
  return create(module);
}

int cuModuleUnload(Thing *module) { return destroy(module); }

int cuModuleGetFunction(void **function, Thing *module, const char *name) {
  (void)name;
  *function = module;
  return SUCCESS;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  *value = attribute == 0 ? 1024 : 0; /* threads of a block; bytes of shared memory and what else there is */
  return SUCCESS;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return SUCCESS;
}

/* Memory */

int cuMemGetInfo_v2(size_t *available, size_t *total) {
  *available = *total = MEMORY;
  return SUCCESS;
}

int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return posix_memalign(pointer, PAGE, bytes) == 0 ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemAlloc_v2(void **pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }
int cuMemAllocManaged(void **pointer, size_t bytes, unsigned flags) { return cuMemHostAlloc(pointer, bytes, flags); }

int cuMemFreeHost(void *pointer) {
  free(pointer);
  return SUCCESS;
}

int cuMemFree_v2(void *pointer) { return cuMemFreeHost(pointer); }

int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return (void)pointer, (void)bytes, (void)flags, SUCCESS;
}

int cuMemHostUnregister(void *pointer) { return (void)pointer, SUCCESS; }

int cuMemHostGetDevicePointer_v2(void **address, void *pointer, unsigned flags) {
  (void)flags;
  *address = pointer;
  return SUCCESS;
}

int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) {
  memmove(to, from, bytes);
  return SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) { return cuMemcpyHtoD_v2(to, from, bytes); }

int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  return cuMemcpyHtoD_v2(to, from, bytes);
}

int cuMemsetD8_v2(void *to, unsigned char value, size_t bytes) {
  memset(to, value, bytes);
  return SUCCESS;
}

int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) {
  (void)stream;
  return cuMemsetD8_v2(to, value, bytes);
}

/* Streams and events */

int cuStreamCreate(Thing **stream, unsigned flags) { return (void)flags, create(stream); }
int cuStreamDestroy_v2(Thing *stream) { return destroy(stream); }
/* The default stream, which no kernel is started in. */
int cuStreamSynchronize(Thing *stream) { return (void)stream, SUCCESS; }
int cuEventCreate(Thing **event, unsigned flags) { return (void)flags, create(event); }
int cuEventDestroy_v2(Thing *event) { return destroy(event); }

int cuEventRecord(Thing *event, void *stream) {
  (void)stream;
  event->number = busy_until;
  return SUCCESS;
}

int cuEventQuery(Thing *event) {
  spin(kernel_time ? ASKED : 0);
  return now() < event->number ? NOT_READY : SUCCESS;
}

/* Launches */

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared, (void)stream, (void)parameters, (void)extra;
  spin(2 * change_time);
  return start(1);
}

int cuGraphCreate(Thing **graph, unsigned flags) { return (void)flags, create(graph); }

int cuGraphAddKernelNode(void **node, Thing *graph, const void *before, size_t count, const void *launch) {
  (void)before, (void)count, (void)launch;
  graph->number += 1;
  *node = graph;
  return SUCCESS;
}

int cuGraphAddDependencies_v2(Thing *graph, const void *from, const void *to, const void *edges, size_t count) {
  return (void)graph, (void)from, (void)to, (void)edges, (void)count, SUCCESS;
}

int cuGraphInstantiateWithFlags(Thing **executable, Thing *graph, uint64_t flags) {
  (void)flags;
  int status = create(executable);
  if (status == SUCCESS) (*executable)->number = graph->number;
  return status;
}

int cuGraphExecKernelNodeSetParams(Thing *executable, void *node, const void *launch) {
  (void)executable, (void)node, (void)launch;
  spin(change_time);
  return SUCCESS;
}

int cuGraphLaunch(Thing *executable, void *stream) {
  (void)stream;
  spin(launch_time);
  return start(executable->number);
}

int cuGraphExecDestroy(Thing *executable) { return destroy(executable); }
int cuGraphDestroy(Thing *graph) { return destroy(graph); }
