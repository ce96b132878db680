/* Software Metal devices, and what they can do that Metal has no words for. */
#import "software_device.h"

#include <string.h>

#import "base/error.h"
#include "cpu.h"
#import "softmetal.h"

static iron_status changed(soft_outcome outcome) {
  switch (outcome) {
  case SOFT_OK: return IRON_OK;
  case SOFT_INVALID: return IRON_ERROR_OUT_OF_RANGE;
  case SOFT_UNSUPPORTED: return IRON_ERROR_UNSUPPORTED;
  default: return IRON_ERROR_OUT_OF_MEMORY;
  }
}

static iron_status set_threads(uint32_t threads, char **text) { return changed(soft_cpu_set_threads(threads, text)); }

static iron_status pin_threads(const uint32_t *processors, size_t count, char **text) {
  return changed(soft_cpu_pin_threads(processors, count, text));
}

static uint32_t cores(const void *metal) { return SoftMetalCores((id<MTLDevice>)metal); }

static uint64_t wait_budget(const void *metal) { return SoftMetalWaitBudget((id<MTLDevice>)metal); }

static iron_status copied(soft_outcome outcome) {
  switch (outcome) {
  case SOFT_OK: return IRON_OK;
  case SOFT_OUT_OF_MEMORY: return IRON_ERROR_OUT_OF_MEMORY;
  case SOFT_UNSUPPORTED: return IRON_ERROR_UNSUPPORTED;
  case SOFT_DEVICE_LOST: return IRON_ERROR_DEVICE_LOST;
  default: return IRON_ERROR_INTERNAL; /* the bridge has checked what it passes on */
  }
}

static soft_matrix matrix_of(const IronWeights *weights) {
  return (soft_matrix){
      .offset = weights->offset, .rows = weights->rows, .width = weights->width, .dtype = weights->dtype};
}

static iron_status write_weights(id<MTLBuffer> buffer, const IronWeights *weights, uint64_t first, uint64_t count,
                                 const void *rows, char **text) {
  const soft_matrix matrix = matrix_of(weights);
  return copied(SoftMetalWriteWeights(buffer, &matrix, first, count, rows, count * weights->row_bytes, text));
}

static iron_status read_weights(id<MTLBuffer> buffer, const IronWeights *weights, uint64_t first, uint64_t count,
                                void *rows, char **text) {
  const soft_matrix matrix = matrix_of(weights);
  return copied(SoftMetalReadWeights(buffer, &matrix, first, count, rows, count * weights->row_bytes, text));
}

static const IronExtras of_software = {.commit_without_waking = SoftMetalCommitWithoutWaking,
                                       .run = SoftMetalRun,
                                       .wait_budget = wait_budget,
                                       .cores = cores,
                                       .is_lost = SoftMetalIsLost,
                                       .expect_reads = SoftMetalExpectReads,
                                       .new_weights = SoftMetalNewWeights,
                                       .write_weights = write_weights,
                                       .read_weights = read_weights};

static const IronExtras of_cpu = {.commit_without_waking = SoftMetalCommitWithoutWaking,
                                  .run = SoftMetalRun,
                                  .wait_budget = wait_budget,
                                  .cores = cores,
                                  .expect_reads = SoftMetalExpectReads,
                                  .new_weights = SoftMetalNewWeights,
                                  .write_weights = write_weights,
                                  .read_weights = read_weights,
                                  .threads = soft_cpu_threads,
                                  .set_threads = set_threads,
                                  .pin_threads = pin_threads};

static iron_status not_opened(soft_outcome outcome) {
  switch (outcome) {
  case SOFT_UNSUPPORTED: return IRON_ERROR_NO_DEVICE;
  case SOFT_DEVICE_LOST: return IRON_ERROR_DEVICE_LOST;
  case SOFT_OUT_OF_MEMORY: return IRON_ERROR_OUT_OF_MEMORY;
  default: return IRON_ERROR_INVALID_ARGUMENT;
  }
}

uint32_t IronSoftwareCount(void) { return 1 + soft_backend_count("nvidia"); }

iron_status IronSoftwareOpen(IronSoftwareDevice *device, const char *backend, const char *configuration) {
  NSError *error = nil;
  device->metal = [SoftMetalCreateDevice(backend, configuration, &error) autorelease];
  device->extras = strcmp(backend, "cpu") == 0 ? &of_cpu : &of_software;
  if (device->metal) return IRON_OK;
  return IronErrorReport(not_opened(SoftMetalOutcome(error)), "selector: %s", IronErrorDescribe(error));
}

const IronExtras *IronSoftwareExtras(id<MTLDevice> metal, BOOL *is_cpu) {
  if (!SoftMetalIsDevice(metal, is_cpu)) return NULL;
  return *is_cpu ? &of_cpu : &of_software;
}
