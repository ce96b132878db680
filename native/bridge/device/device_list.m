/* Which devices there are, and how a selector names one. The only file that knows where a Metal device comes from, and
 * what software devices can do beyond Metal. */
#import "device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#import "base/entry.h"
#import "base/handle.h"
#include "cpu.h"
#import "softmetal.h"
#import "base/structs.h"

/* Apple's devices; empty where there is no Metal. Autoreleased. */
static NSArray *metal_devices(void) {
#ifdef __APPLE__
  return [MTLCopyAllDevices() autorelease];
#else
  return [NSArray array];
#endif
}

/* Apple's default device, or nil. Autoreleased. */
static id<MTLDevice> default_metal_device(void) {
#ifdef __APPLE__
  return [MTLCreateSystemDefaultDevice() autorelease];
#else
  return nil;
#endif
}

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

static const IronExtras apples = {0};

static const IronExtras of_software = {.commit_quietly = SoftMetalCommitQuietly,
                                       .run = SoftMetalRun,
                                       .wait_budget = wait_budget,
                                       .cores = cores,
                                       .expect_reads = SoftMetalExpectReads};

static const IronExtras of_cpu = {.commit_quietly = SoftMetalCommitQuietly,
                                  .run = SoftMetalRun,
                                  .wait_budget = wait_budget,
                                  .cores = cores,
                                  .expect_reads = SoftMetalExpectReads,
                                  .threads = soft_cpu_threads,
                                  .set_threads = set_threads,
                                  .pin_threads = pin_threads};

/* A device that can be opened. */
typedef struct Choice {
  id<MTLDevice> metal; /* autoreleased */
  const IronExtras *extras;
  iron_device_kind kind;
  uint32_t index;
} Choice;

static const char cpu[] = "cpu", nvidia[] = "nvidia";

static iron_status choose_backend(Choice *choice, const char *name, const char *configuration) {
  NSError *error = nil;
  choice->metal = [SoftMetalCreateDevice(name, configuration, &error) autorelease];
  choice->extras = strcmp(name, cpu) == 0 ? &of_cpu : &of_software;
  choice->kind = IRON_DEVICE_SOFTWARE;
  choice->index = (uint32_t)[metal_devices() count];
  if (choice->metal) return IRON_OK;
  iron_status status = SoftMetalIsUnknownBackend(error) ? IRON_ERROR_NO_DEVICE : IRON_ERROR_INVALID_ARGUMENT;
  return IronErrorReport(status, "selector: %s", IronErrorDescribe(error));
}

static iron_status choose_software(Choice *choice) { return choose_backend(choice, cpu, NULL); }

/* The device behind the CPU that has number `index`. */
static iron_status choose_nvidia(Choice *choice, const char *configuration) {
  IRON_TRY(choose_backend(choice, nvidia, configuration));
  choice->index += 1 + (configuration ? (uint32_t)strtoul(configuration, NULL, 10) : 0);
  return IRON_OK;
}

/* "NAME" or "NAME:CONFIGURATION" of a backend. */
static iron_status choose_named(Choice *choice, const char *selector) {
  char name[32];
  const char *colon = strchr(selector, ':');
  size_t length = colon ? (size_t)(colon - selector) : strlen(selector);
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), selector);
  const char *configuration = colon ? colon + 1 : NULL;
  if (strcmp(name, nvidia) == 0) return choose_nvidia(choice, configuration);
  iron_status status = choose_backend(choice, name, configuration);
  if (status != IRON_ERROR_NO_DEVICE) return status;
  return IronErrorReport(
      status, "selector: no device answers to \"%s\"; these do: default, metal, cpu, cpu:KEY=VALUE,…, nvidia, "
      "nvidia:NUMBER and the indices",
      selector);
}

/* The default Metal device; its metal is nil when there is none. */
static Choice default_metal(void) {
  Choice choice = {.metal = default_metal_device(), .extras = &apples, .kind = IRON_DEVICE_METAL, .index = 0};
#ifdef __APPLE__
  for (id<MTLDevice> listed in metal_devices()) {
    if ([listed registryID] == [choice.metal registryID]) break;
    choice.index += 1;
  }
#endif
  return choice;
}

/* `given`: the index as the caller wrote it. */
static iron_status choose_index(Choice *choice, uint32_t index, const char *given, iron_status missing) {
  NSArray *devices = metal_devices();
  if (index == [devices count]) return choose_software(choice);
  if (index > [devices count]) {
    uint32_t last = (uint32_t)[devices count] + soft_backend_count(nvidia);
    if (index > last) return IronErrorReport(missing, "there is no device %s, the last one is %u", given, last);
    char number[16];
    snprintf(number, sizeof number, "%u", index - (uint32_t)[devices count] - 1);
    return choose_nvidia(choice, number);
  }
  *choice = (Choice){
      .metal = [devices objectAtIndex:index], .extras = &apples, .kind = IRON_DEVICE_METAL, .index = index};
  return IRON_OK;
}

static bool parse_index(const char *text, uint32_t *index) {
  if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
  unsigned long long value = strtoull(text, NULL, 10); /* ULLONG_MAX when it overflows */
  *index = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  return true;
}

static bool is_default(const char *selector) { return !selector || !*selector || strcmp(selector, "default") == 0; }

static iron_status choose(Choice *choice, const char *selector) {
  if (is_default(selector)) selector = getenv("IRONBRIDGE_DEVICE");
  if (is_default(selector)) {
    *choice = default_metal();
    return choice->metal ? IRON_OK : choose_software(choice);
  }
  uint32_t index;
  if (strcmp(selector, "metal") == 0) {
    *choice = default_metal();
    return choice->metal
               ? IRON_OK
               : IronErrorReport(IRON_ERROR_NO_DEVICE, "selector: \"metal\": this machine has no Metal device");
  }
  if (parse_index(selector, &index)) return choose_index(choice, index, selector, IRON_ERROR_NO_DEVICE);
  return choose_named(choice, selector);
}

iron_status iron_device_count(uint32_t *count) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(count, "count");
    *count = (uint32_t)[metal_devices() count] + 1 + soft_backend_count(nvidia);
    return IRON_OK;
  } IRON_LEAVE
}

iron_status iron_device_describe_index(uint32_t index, iron_device_info *info) {
  IRON_ENTRY {
    IRON_CLEAR_STRUCT(info, "info");
    Choice choice;
    char given[16];
    snprintf(given, sizeof given, "%u", index);
    IRON_TRY(choose_index(&choice, index, given, IRON_ERROR_OUT_OF_RANGE));
    iron_device_info full;
    IronDeviceDescribe(&full, choice.metal, choice.kind, choice.index);
    IRON_WRITE_STRUCT(info, full);
    return IRON_OK;
  } IRON_LEAVE
}

static iron_status complete_options(iron_device_options *options) {
  enum { MAX_IN_FLIGHT = 64 };
  const uint64_t second = UINT64_C(1000000000);
  if (options->pool_policy > IRON_IDLE_RELEASE)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: pool_policy %u is none", options->pool_policy);
  if (options->max_in_flight == UINT32_MAX) options->max_in_flight = MAX_IN_FLIGHT;
  if (options->max_in_flight > MAX_IN_FLIGHT)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT, "options: max_in_flight is %u, at most %d is possible",
                           options->max_in_flight, MAX_IN_FLIGHT);
  if (options->max_operations == 0) options->max_operations = 100;
  if (options->max_in_flight == 0) options->max_in_flight = 8;
  if (options->max_flush_bytes == 0) options->max_flush_bytes = UINT64_C(1) << 30;
  if (options->pool_max_buffers == 0) options->pool_max_buffers = 64;
  if (options->pool_max_bytes == 0) options->pool_max_bytes = UINT64_C(256) << 20;
  if (options->pool_max_buffer_bytes == 0) options->pool_max_buffer_bytes = UINT64_MAX;
  if (options->pool_idle_time == 0) options->pool_idle_time = 30 * second;
  if (options->memory_limit == 0) options->memory_limit = UINT64_MAX;
  if (options->pool_policy == IRON_IDLE_DEFAULT) options->pool_policy = IRON_IDLE_VOLATILE;
  return IRON_OK;
}

iron_status iron_device_open(const char *selector, const iron_device_options *given, iron_device **handle) {
  IRON_ENTRY {
    IRON_CLEAR_RESULT(handle, "device");
    iron_device_options options;
    IRON_READ_OPTIONAL_STRUCT(options, given, "options");
    IRON_TRY(complete_options(&options));
    Choice choice;
    IRON_TRY(choose(&choice, selector));
    IronDevice *device = IronDeviceMake(choice.metal, choice.extras, choice.kind, choice.index, &options);
    if (!device) return IRON_ERROR_OUT_OF_MEMORY;
    return IronHandleCreate(device, IRON_HANDLE_DEVICE, (void **)handle);
  } IRON_LEAVE
}
