/* Which devices there are, and how a selector names one. The only file that knows where a Metal device comes from. */
#import "device.h"
#import "device_list.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#import "base/entry.h"
#import "base/handle.h"
#import "base/structs.h"
#import "software_device.h"

#if defined(__APPLE__)

/* Empty where there is no Metal. Autoreleased. */
static NSArray *metal_devices(void) { return [MTLCopyAllDevices() autorelease]; }

/* Or nil. Autoreleased. */
static id<MTLDevice> system_default(void) { return [MTLCreateSystemDefaultDevice() autorelease]; }

#elif defined(IRON_TEST_AS_MAC)

/* A Mac with a GPU that cannot run the kernels, which is its default device, and one that can. */
static NSArray *metal_devices(void) {
  static const char *const configurations[] = {"gpu=intel", "gpu=apple9"};
  NSMutableArray *devices = [NSMutableArray array];
  for (size_t index = 0; index < sizeof configurations / sizeof *configurations; index++) {
    IronSoftwareDevice device;
    if (IronSoftwareOpen(&device, "cpu", configurations[index]) == IRON_OK) [devices addObject:device.metal];
  }
  return devices;
}

static id<MTLDevice> system_default(void) { return [metal_devices() objectAtIndex:0]; }

#else

static NSArray *metal_devices(void) { return [NSArray array]; }

static id<MTLDevice> system_default(void) { return nil; }

#endif

/* Metal does not say. The smallest GPU that the kernels run on has these. */
static uint32_t fewest_cores(const void *metal) {
  (void)metal;
  return 8;
}
static const IronExtras apples = {.cores = fewest_cores};

/* A device that can be opened. */
typedef struct Choice {
  id<MTLDevice> metal; /* autoreleased */
  const IronExtras *extras;
  iron_device_kind kind;
  uint32_t index;
} Choice;

static const char cpu[] = "cpu", nvidia[] = "nvidia";

static iron_status choose_backend(Choice *choice, const char *name, const char *configuration) {
  IronSoftwareDevice opened;
  IRON_TRY(IronSoftwareOpen(&opened, name, configuration));
  *choice = (Choice){.metal = opened.metal,
                     .extras = opened.extras,
                     .kind = IRON_DEVICE_SOFTWARE,
                     .index = (uint32_t)[metal_devices() count]};
  return IRON_OK;
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

#pragma mark Metal's devices

/* Whether a GPU has what the kernels are written for: SIMD-groups of 32 threads, their sums and 8x8 matrices. Others
 * refuse the kernels one by one, or compute wrong numbers (Apple's "Metal Feature Set Tables"). */
static bool can_run_kernels(id<MTLDevice> metal) { return [metal supportsFamily:MTLGPUFamilyApple7]; }

static iron_status require_usable(const Choice *choice) {
  if (can_run_kernels(choice->metal)) return IRON_OK;
  return IronErrorReport(IRON_ERROR_UNSUPPORTED,
                         "selector: the GPU \"%s\" cannot run ironbridge's kernels, which need Metal's family Apple7 (an "
                         "M1 or newer); \"cpu\" computes on the processor",
                         [[choice->metal name] UTF8String]);
}

static Choice metal_choice(id<MTLDevice> metal, NSUInteger index) {
  return (Choice){.metal = metal, .extras = &apples, .kind = IRON_DEVICE_METAL, .index = (uint32_t)index};
}

/* The system's default device, or where its GPU cannot run the kernels the first one whose can. When none can it is the
 * system's; its metal is nil when there is none. */
static Choice default_metal(void) {
  NSArray *devices = metal_devices();
  uint64_t wanted = [system_default() registryID];
  Choice first = {0}, chosen = {0};
  for (NSUInteger index = 0; index < [devices count]; index++) {
    id<MTLDevice> metal = [devices objectAtIndex:index];
    bool is_wanted = [metal registryID] == wanted;
    if (is_wanted || !first.metal) first = metal_choice(metal, index);
    if (can_run_kernels(metal) && (is_wanted || !chosen.metal)) chosen = metal_choice(metal, index);
  }
  return chosen.metal ? chosen : first;
}

/* `given`: the index as the caller wrote it. */
static iron_status choose_index(Choice *choice, uint32_t index, const char *given, iron_status missing) {
  NSArray *devices = metal_devices();
  uint32_t software = (uint32_t)[devices count], count = software + IronSoftwareCount();
  if (count == 0) return IronErrorReport(missing, "there is no device %s: there is none at all", given);
  if (index >= count) return IronErrorReport(missing, "there is no device %s, the last one is %u", given, count - 1);
  if (index == software) return choose_software(choice);
  if (index > software) {
    char number[16];
    snprintf(number, sizeof number, "%u", index - software - 1);
    return choose_nvidia(choice, number);
  }
  *choice = metal_choice([devices objectAtIndex:index], index);
  return IRON_OK;
}

static bool parse_index(const char *text, uint32_t *index) {
  if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
  unsigned long long value = strtoull(text, NULL, 10); /* ULLONG_MAX when it overflows */
  *index = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
  return true;
}

static bool is_default(const char *selector) { return !selector || !*selector || strcmp(selector, "default") == 0; }

/* The first that can be opened of Metal, NVIDIA's GPUs and the CPU. */
static iron_status choose_default(Choice *choice) {
  *choice = default_metal();
  if (choice->metal && can_run_kernels(choice->metal)) return IRON_OK;
  bool has_gpus = IronSoftwareCount() > 1;
  if (has_gpus && choose_nvidia(choice, NULL) == IRON_OK) return IRON_OK;
  return choose_software(choice);
}

static iron_status choose(Choice *choice, const char *selector) {
  if (is_default(selector)) selector = getenv("IRONBRIDGE_DEVICE");
  if (is_default(selector)) return choose_default(choice);
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
    *count = (uint32_t)[metal_devices() count] + IronSoftwareCount();
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

iron_status IronDeviceCompleteOptions(iron_device_options *options) {
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
    IRON_TRY(IronDeviceCompleteOptions(&options));
    Choice choice;
    IRON_TRY(choose(&choice, selector));
    IRON_TRY(require_usable(&choice));
    IronDevice *device = IronDeviceMake(choice.metal, nil, choice.extras, choice.kind, choice.index, &options);
    if (!device) return IRON_ERROR_OUT_OF_MEMORY;
    return IronHandleCreate(device, IRON_HANDLE_DEVICE, (void **)handle);
  } IRON_LEAVE
}

/* What the device is, and where it is in the list; a device that is not there has the first index behind it. */
static Choice choice_of(id<MTLDevice> metal) {
  BOOL is_cpu = NO;
  NSArray *devices = metal_devices();
  uint32_t count = (uint32_t)[devices count];
  const IronExtras *extras = IronSoftwareExtras(metal, &is_cpu);
  if (extras)
    return (Choice){.metal = metal,
                    .extras = extras,
                    .kind = IRON_DEVICE_SOFTWARE,
                    .index = is_cpu ? count : count + 1};
  for (uint32_t index = 0; index < count; index++)
    if ([(id<MTLDevice>)[devices objectAtIndex:index] registryID] == [metal registryID])
      return metal_choice(metal, index);
  return metal_choice(metal, count + IronSoftwareCount());
}

iron_status IronDeviceOpenMetal(id<MTLDevice> metal, id<MTLCommandQueue> queue, const iron_device_options *options,
                                iron_device **handle) {
  if (queue && options->max_in_flight > IRON_IN_FLIGHT_ON_FOREIGN_QUEUE)
    return IronErrorReport(IRON_ERROR_INVALID_ARGUMENT,
                           "options: max_in_flight is %u, on a queue of the caller's at most %d is possible",
                           options->max_in_flight, IRON_IN_FLIGHT_ON_FOREIGN_QUEUE);
  Choice choice = choice_of(metal);
  IRON_TRY(require_usable(&choice));
  IronDevice *device = IronDeviceMake(choice.metal, queue, choice.extras, choice.kind, choice.index, options);
  if (!device) return IRON_ERROR_OUT_OF_MEMORY;
  return IronHandleCreate(device, IRON_HANDLE_DEVICE, (void **)handle);
}
