/* A kernel of your own, from Metal source: histograms of bytes, one for each threadgroup, with function constants for
 * what is known when the kernel is made and threadgroup memory for counters that many threads add to.
 *
 *   user_kernel
 *
 * Where there is no Metal this needs clang at run time, as the build does. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ironbridge_memory.h"

enum { BYTES = 100000, GROUPS = 4, THREADS = 128, BINS = 16 };

static const char source[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "\n"
    "constant uint bins [[function_constant(0)]];\n"
    "constant bool weighted [[function_constant(1)]];\n"
    "\n"
    "kernel void histogram(device const uchar *bytes [[buffer(0)]], device uint *counts [[buffer(1)]],\n"
    "                      constant uint &length [[buffer(2)]], threadgroup atomic_uint *shared [[threadgroup(0)]],\n"
    "                      uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]],\n"
    "                      uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {\n"
    "  for (uint bin = thread_index; bin < bins; bin += threads)\n"
    "    atomic_store_explicit(&shared[bin], 0u, memory_order_relaxed);\n"
    "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "  for (uint i = group * threads + thread_index; i < length; i += groups * threads) {\n"
    "    uint byte = bytes[i];\n"
    "    atomic_fetch_add_explicit(&shared[byte * bins / 256], weighted ? byte : 1u, memory_order_relaxed);\n"
    "  }\n"
    "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "  for (uint bin = thread_index; bin < bins; bin += threads)\n"
    "    counts[group * bins + bin] = atomic_load_explicit(&shared[bin], memory_order_relaxed);\n"
    "}\n";

/* Ends the program with the library's own sentence when a call failed. */
static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

/* Runs the kernel over `bytes` and adds up the threadgroups' histograms. */
static void histogram(iron_device *device, iron_library *library, iron_buffer *bytes, bool weighted,
                      uint32_t totals[BINS]) {
  const iron_constant constants[] = {
      {.index = 0, .type = IRON_CONSTANT_U32, .value.u32 = BINS},
      {.index = 1, .type = IRON_CONSTANT_BOOL, .value.boolean = weighted},
  };
  iron_kernel *kernel;
  CHECK(iron_kernel_create(library, "histogram", constants, sizeof constants / sizeof *constants, &kernel));
  iron_buffer *counts;
  CHECK(iron_buffer_create(device, GROUPS * BINS * sizeof(uint32_t), NULL, &counts));

  const uint32_t length = BYTES;
  const iron_argument arguments[] = {
      {.kind = IRON_ARGUMENT_BUFFER, .index = 0, .buffer = bytes, .access = IRON_ACCESS_READ},
      {.kind = IRON_ARGUMENT_BUFFER, .index = 1, .buffer = counts, .access = IRON_ACCESS_WRITE},
      {.kind = IRON_ARGUMENT_BYTES, .index = 2, .bytes = &length, .length = sizeof length},
      {.kind = IRON_ARGUMENT_THREADGROUP, .index = 0, .length = BINS * sizeof(uint32_t)},
  };
  const iron_dispatch dispatch = {
      .size = sizeof dispatch,
      .arguments = arguments,
      .argument_count = sizeof arguments / sizeof *arguments,
      .grid = {GROUPS, 1, 1},
      .threadgroup = {THREADS, 1, 1},
  };
  iron_commands *commands;
  CHECK(iron_commands_begin(device, NULL, &commands));
  CHECK(iron_encode_kernel(commands, kernel, &dispatch));
  CHECK(iron_commands_commit(commands));
  CHECK(iron_commands_wait(commands, UINT64_MAX));

  uint32_t read[GROUPS * BINS];
  CHECK(iron_buffer_read(counts, 0, read, sizeof read));
  for (int bin = 0; bin < BINS; bin++) {
    totals[bin] = 0;
    for (int group = 0; group < GROUPS; group++) totals[bin] += read[group * BINS + bin];
  }
  CHECK(iron_commands_release(commands));
  CHECK(iron_buffer_release(counts));
  CHECK(iron_kernel_release(kernel));
}

int main(void) {
  static unsigned char bytes[BYTES];
  uint32_t seed = 1, expected[2][BINS] = {{0}};
  for (int i = 0; i < BYTES; i++) {
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes, chapter 7.1 */
    bytes[i] = (unsigned char)(seed >> 24);
    expected[0][bytes[i] * BINS / 256] += 1;
    expected[1][bytes[i] * BINS / 256] += bytes[i];
  }

  iron_device *device;
  CHECK(iron_device_open(NULL, NULL, &device));
  iron_library *library;
  CHECK(iron_library_create(device, source, &library));
  iron_buffer *buffer;
  CHECK(iron_buffer_create_with_bytes(device, bytes, sizeof bytes, NULL, &buffer));

  int wrong = 0;
  for (int weighted = 0; weighted < 2; weighted++) {
    uint32_t totals[BINS];
    histogram(device, library, buffer, weighted, totals);
    int differ = 0;
    for (int bin = 0; bin < BINS; bin++) differ += totals[bin] != expected[weighted][bin];
    printf("%s of %d bytes in %d bins: %s\n", weighted ? "sums" : "counts", BYTES, BINS, differ ? "WRONG" : "right");
    wrong += differ;
  }
  CHECK(iron_buffer_release(buffer));
  CHECK(iron_library_release(library));
  CHECK(iron_device_release(device));
  iron_diagnostics diagnostics = {.size = sizeof diagnostics};
  CHECK(iron_diagnose(&diagnostics));
  printf("handles left over: %lld\n", (long long)diagnostics.live_handles);
  return wrong > 0;
}
