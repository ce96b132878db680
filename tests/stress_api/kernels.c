/* Kernels from Metal source: few sources, compiled before the threads start and from the cache after that. They stay
 * within their buffers whatever these are, for a kernel is as trusted as the program. */
#include <string.h>

#include "calls.h"

static const char *const sources[] = {
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "constant uint amount [[function_constant(0)]];\n"
    "constant bool twice [[function_constant(1)]];\n"
    "kernel void count(device atomic_uint *out [[buffer(0)]], constant uchar *in [[buffer(1)]]) {\n"
    "  atomic_fetch_add_explicit(out, (twice ? 2 * amount : amount) + in[0], memory_order_relaxed);\n"
    "}\n"
    "kernel void copy(device uchar *out [[buffer(0)]], const device uchar *in [[buffer(1)]]) { out[0] = in[0]; }\n",
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "kernel void meet(device uchar *out [[buffer(0)]], threadgroup uint *shared [[threadgroup(0)]],\n"
    "                 uint lane [[thread_index_in_threadgroup]]) {\n"
    "  if (lane == 0) shared[0] = 7;\n"
    "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "  if (lane == 0) out[0] = (uchar)shared[0];\n"
    "}\n",
};
static const char *const names[] = {"count", "copy", "meet"};
enum { SOURCES = sizeof sources / sizeof *sources, NAMES = sizeof names / sizeof *names };

static const iron_constant constants[] = {{.index = 0, .type = IRON_CONSTANT_U32, .value.u32 = 3},
                                          {.index = 1, .type = IRON_CONSTANT_BOOL, .value.boolean = true}};

void kernel_calls_prepare(iron_device *device) {
  for (int source = 0; source < SOURCES; source++) {
    iron_library *library = NULL;
    if (CALL(iron_library_create, device, sources[source], &library) != IRON_OK) {
      failure("the kernels do not compile: %s", iron_last_error());
      return;
    }
    for (int name = 0; name < NAMES; name++) {
      iron_kernel *kernel = NULL;
      iron_status status = CALL(iron_kernel_create, library, names[name], constants, 2, &kernel);
      if (status == IRON_OK)
        CALL(iron_kernel_release, kernel);
      else if (status != IRON_ERROR_NOT_FOUND)
        failure("%s does not compile: %s", names[name], iron_last_error());
    }
    CALL(iron_library_release, library);
  }
}

/* A source with an error is compiled each time anew: now and then one, most often what is refused before a compiler
 * starts. */
static const char *source_for(Call *call) {
  static const char *const refused[] = {NULL, "", "\xff"};
  Random *random = &call->random;
  if (random_chance(random, 95)) return sources[random_below(random, SOURCES)];
  return random_chance(random, 98) ? refused[random_below(random, 3)] : "kernel void broken(device float *x) { y }";
}

static void library_create(Call *call) {
  void *result = given_result(), *place = given_or_null(call, &result);
  iron_status status = CALL(iron_library_create, handles_any(call, DEVICE), source_for(call), place);
  handles_put(call, LIBRARY, given_result_check("iron_library_create", status, place ? result : NULL));
}

static void library_create_with_options(Call *call) {
  Random *random = &call->random;
  /* Few that compile, since each is compiled; many that are refused. */
  static const char *const macro_names[] = {"NAME", "", "1", NULL, "a b", "_"};
  static const char *const values[] = {NULL, "", "1", "1\n2", "\xff"};
  iron_macro macros[2] = {{.name = "NAME", .value = "1"}, {.name = "OTHER"}};
  GIVEN(iron_library_options) options = {.value = {.macros = macros, .macro_count = 2}};
  if (random_chance(random, 60)) {
    macros[1].name = macro_names[random_below(random, sizeof macro_names / sizeof *macro_names)];
    macros[0].value = values[random_below(random, sizeof values / sizeof *values)];
    if (random_chance(random, 20)) macros[1].reserved[random_below(random, 4)] = 1;
    options.value.language_version = (uint32_t)random_count(random, 400);
    options.value.math_mode = random_constant(random, IRON_MATH_DEFAULT, IRON_MATH_FAST);
    options.value.macros = given_or_null(call, macros);
    options.value.macro_count = options.value.macros ? random_below(random, 3) : random_count(random, 2);
  }
  given_input(call, &options, sizeof options.value);
  void *result = given_result(), *place = given_or_null(call, &result);
  const void *with = random_chance(random, 30) ? NULL : &options;
  iron_status status =
      CALL(iron_library_create_with_options, handles_any(call, DEVICE), sources[0], with, place);
  handles_put(call, LIBRARY,
              given_result_check("iron_library_create_with_options", status, place ? result : NULL));
}

/* No device here runs a metallib. */
static void library_open(Call *call) {
  static const char *const paths[] = {"/nowhere", "/dev/null", "", "/", NULL, "\xff"};
  void *result = given_result(), *place = given_or_null(call, &result);
  const char *path = paths[random_below(&call->random, sizeof paths / sizeof *paths)];
  iron_status status = CALL(iron_library_open, handles_any(call, DEVICE), path, place);
  if (status == IRON_OK) failure("a library was made of %s", path);
  given_result_check("iron_library_open", status, place ? result : NULL);
}

static void library_retain(Call *call) {
  void *library = handles_any(call, LIBRARY);
  if (CALL(iron_library_retain, library) == IRON_OK) handles_put(call, LIBRARY, library);
}

static void library_release(Call *call) { handles_release(LIBRARY, handles_take(call, LIBRARY)); }

static void kernel_create(Call *call) {
  Random *random = &call->random;
  iron_constant odd[2] = {constants[0], constants[1]};
  const iron_constant *with = constants;
  size_t count = 2;
  if (random_chance(random, 10)) {
    odd[0].index = (uint32_t)random_count(random, 4);
    odd[1].type = (iron_constant_type)random_constant(random, IRON_CONSTANT_I32, IRON_CONSTANT_BF16);
    odd[1].components = (uint32_t)random_count(random, 4);
    if (random_chance(random, 20)) odd[1].name = given_text(call);
    if (random_chance(random, 20)) odd[1].reserved[random_below(random, 5)] = 1;
    with = given_or_null(call, odd);
    count = with ? random_below(random, 3) : random_count(random, 2);
    /* Other values are another kernel to compile: only those that are refused for their place or type. */
    if (count > 0 && with && odd[0].index <= UINT16_MAX) odd[0].index += UINT16_MAX;
  }
  const char *name = random_chance(random, 95) ? names[random_below(random, NAMES)] : given_text(call);
  void *result = given_result(), *place = given_or_null(call, &result);
  iron_status status = CALL(iron_kernel_create, handles_any(call, LIBRARY), name, with, count, place);
  handles_put(call, KERNEL, given_result_check("iron_kernel_create", status, place ? result : NULL));
}

static void kernel_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_kernel_describe, handles_any(call, KERNEL), iron_kernel_info);
}

static void kernel_argument(Call *call) {
  GIVEN(iron_kernel_argument_info) output;
  given_output(call, &output, sizeof output.value);
  uint32_t position = (uint32_t)random_below(&call->random, 8);
  iron_status status =
      CALL(iron_kernel_argument, handles_any(call, KERNEL), position, given_or_null(call, &output));
  given_output_check("iron_kernel_argument", status, &output, sizeof output.value);
}

static void library_kernel_count(Call *call) {
  uint32_t count;
  CALL(iron_library_kernel_count, handles_any(call, LIBRARY), given_or_null(call, &count));
}

static void library_kernel_name(Call *call) {
  char text[64];
  size_t length, capacity = random_below(&call->random, sizeof text + 1);
  uint32_t index = (uint32_t)random_below(&call->random, 4);
  char *place = given_or_null(call, text);
  iron_status status = CALL(iron_library_kernel_name, handles_any(call, LIBRARY), index, place, capacity,
                            given_or_null(call, &length));
  if (status == IRON_OK && capacity > 0 && !memchr(text, '\0', capacity))
    failure("iron_library_kernel_name gave a text without an end");
}

static void source_with_includes(Call *call) {
  static const char *const texts[] = {"", "#include \"nothing.h\"\nx", "#include <metal_stdlib>\n", "\xff", NULL};
  static const char *const places[] = {"/nowhere", ".", "", NULL, "\xff"};
  Random *random = &call->random;
  const char *folders[] = {places[random_below(random, 2)], places[random_below(random, 5)]};
  char text[64];
  size_t length, capacity = random_below(random, sizeof text + 1);
  char *place = given_or_null(call, text);
  iron_status status = CALL(iron_source_with_includes, texts[random_below(random, 5)], given_or_null(call, folders),
                            random_below(random, 3), place, capacity, given_or_null(call, &length));
  if (status == IRON_OK && capacity > 0 && !memchr(text, '\0', capacity))
    failure("iron_source_with_includes gave a text without an end");
}

static void kernel_retain(Call *call) {
  void *kernel = handles_any(call, KERNEL);
  if (CALL(iron_kernel_retain, kernel) == IRON_OK) handles_put(call, KERNEL, kernel);
}

static void kernel_release(Call *call) { handles_release(KERNEL, handles_take(call, KERNEL)); }

/* What the kernels take, and now and then anything. Both buffers are said to be written, whatever the kernel is. */
static iron_argument argument_for(Call *call, uint32_t index) {
  Random *random = &call->random;
  iron_argument argument = {.kind = IRON_ARGUMENT_BUFFER, .index = index, .access = IRON_ACCESS_READ_WRITE};
  if (index == 2) argument = (iron_argument){.kind = IRON_ARGUMENT_THREADGROUP, .index = 0, .length = 16};
  if (random_chance(random, 3))
    argument.kind = (iron_argument_kind)random_constant(random, IRON_ARGUMENT_BUFFER, IRON_ARGUMENT_SAMPLER);
  if (random_chance(random, 3)) argument.index = (uint32_t)random_count(random, 31);
  if (random_chance(random, 3)) argument.length = random_bytes(random, 4096);
  argument.buffer = handles_any(call, BUFFER);
  if (random_chance(random, 5)) argument.offset = random_count(random, 64) * 4;
  argument.bytes = given_or_null(call, call->scratch);
  if (random_chance(random, 2)) argument.reserved[random_below(random, 5)] = 1;
  return argument;
}

/* Small grids, and such as are refused: a grid of billions of threadgroups would run for as long as it takes. */
static void fill_extents(Call *call, uint32_t grid[3], uint32_t threadgroup[3]) {
  Random *random = &call->random;
  for (int axis = 0; axis < 3; axis++) {
    grid[axis] = 1 + (uint32_t)random_below(random, axis ? 2 : 8);
    threadgroup[axis] = 1 + (uint32_t)random_below(random, axis ? 2 : 16);
  }
  if (random_chance(random, 3)) grid[random_below(random, 3)] = 0;
  if (random_chance(random, 3)) threadgroup[random_below(random, 3)] = (uint32_t)random_count(random, 1024);
  if (random_chance(random, 2))
    for (int axis = 0; axis < 3; axis++) grid[axis] = UINT32_MAX;
}

static void encode_kernel(Call *call) {
  enum { MOST = 70 }; /* more than there are indices for */
  Random *random = &call->random;
  iron_argument arguments[MOST];
  size_t count = random_chance(random, 95) ? 3 : random_below(random, MOST + 1);
  for (size_t index = 0; index < count; index++) arguments[index] = argument_for(call, (uint32_t)index);
  GIVEN(iron_dispatch) dispatch = {.value = {.arguments = given_or_null(call, arguments), .argument_count = count}};
  if (!dispatch.value.arguments) dispatch.value.argument_count = random_count(random, 4);
  dispatch.value.threads = random_chance(random, 50);
  fill_extents(call, dispatch.value.grid, dispatch.value.threadgroup);
  given_input(call, &dispatch, sizeof dispatch.value);
  void *commands = handles_any(call, COMMANDS), *kernel = handles_any(call, KERNEL);
  CALL(iron_encode_kernel, commands, kernel, given_or_null(call, &dispatch));
}

static const Entry entries[] = {
    {library_create_with_options, 3}, {library_open, 3},
    {library_create, 6},   {library_retain, 5}, {library_release, 2}, {kernel_create, 15},
    {kernel_describe, 10}, {kernel_argument, 10}, {library_kernel_count, 5}, {library_kernel_name, 5},
    {source_with_includes, 5}, {kernel_retain, 5},  {kernel_release, 5},  {encode_kernel, 40},
};
const Entries kernel_calls = {entries, sizeof entries / sizeof *entries};
