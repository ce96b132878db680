/* The Q, K and V projections of one LLaMA attention layer: three matrix products on the device, one commit, every
 * handle released while the device still works, and each result checked against double arithmetic.
 *
 *   qkv [SEQ D_MODEL KV_DIM]      15 256 32 without arguments; TinyLlama-1.1B has 15 2048 256 for a prompt of 15
 *   tokens
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ironbridge_memory.h"

/* Ends the program with the library's own sentence when a call failed. */
static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

static float *allocate_matrix(size_t rows, size_t columns) {
  float *matrix = calloc(rows * columns, sizeof *matrix);
  if (matrix) return matrix;
  fprintf(stderr, "qkv: no memory for a matrix of %zu x %zu\n", rows, columns);
  exit(1);
}

/* Numbers in [-1, 1), the same ones in every run. */
static float *random_matrix(size_t rows, size_t columns, uint32_t seed) {
  float *matrix = allocate_matrix(rows, columns);
  for (size_t i = 0; i < rows * columns; i++) {
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes, chapter 7.1 */
    matrix[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  return matrix;
}

/* Uploads a packed rows x columns matrix. */
static iron_tensor upload(iron_device *device, const float *matrix, size_t rows, size_t columns, const char *label) {
  iron_buffer_options options = {.size = sizeof options, .category = IRON_CATEGORY_WEIGHTS, .label = label};
  iron_tensor tensor = {.dtype = IRON_F32};
  CHECK(iron_buffer_create_with_bytes(device, matrix, rows * columns * sizeof *matrix, &options, &tensor.buffer));
  return tensor;
}

/* One of Q, K and V: out[seq,width] = x[seq,d_model] * weights[d_model,width]. */
typedef struct projection {
  const char *name;
  size_t width;
  float *weights;
  iron_buffer *out;
} projection;

static void encode(iron_device *device, iron_commands *commands, iron_tensor x, size_t seq, size_t d_model,
                   projection *p) {
  iron_tensor weights = upload(device, p->weights, d_model, p->width, p->name);
  iron_buffer_options options = {.size = sizeof options, .category = IRON_CATEGORY_ACTIVATIONS, .label = p->name};
  CHECK(iron_buffer_create(device, seq * p->width * sizeof(float), &options, &p->out));
  iron_matmul matmul = {
      .size = sizeof matmul,
      .m = seq, .n = p->width, .k = d_model,
      .a = x, .b = weights, .c = {.buffer = p->out, .dtype = IRON_F32},
  };
  CHECK(iron_encode_matmul(commands, &matmul));
  /* The commands keep the weights alive for as long as the device needs them. */
  CHECK(iron_buffer_release(weights.buffer));
}

/* Reads the result, prints it and says whether each value is within the rounding error that f32 accumulation may have:
 * k * epsilon * sum |x| |w| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). */
static bool verify(const projection *p, const float *x, size_t seq, size_t d_model) {
  float *out = allocate_matrix(seq, p->width);
  CHECK(iron_buffer_read(p->out, 0, out, seq * p->width * sizeof *out));
  double largest = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < seq; i++) {
    for (size_t j = 0; j < p->width; j++) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < d_model; k++) {
        double product = (double)x[i * d_model + k] * p->weights[k * p->width + j];
        sum += product;
        magnitude += fabs(product);
      }
      double error = fabs(out[i * p->width + j] - sum);
      if (!(error <= (double)d_model * FLT_EPSILON * magnitude)) wrong++; /* true for NaN as well */
      if (error > largest) largest = error;
    }
  }
  printf("%s  %zu x %zu  starts %9.5f %9.5f %9.5f  largest error %.1e  %s\n", p->name, seq, p->width, out[0], out[1], out[2], largest,
         wrong ? "WRONG" : "right");
  free(out);
  return wrong == 0;
}

/* A size from the command line: 3 at least, so that there is something to print. */
static size_t size_argument(const char *text) {
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || value < 3 || value > 65536) {
    fprintf(stderr, "qkv: '%s' is not a size from 3 to 65536\n", text);
    exit(2);
  }
  return value;
}

int main(int count, char **arguments) {
  size_t seq = 15, d_model = 256, kv_dim = 32;
  if (count == 4) {
    seq = size_argument(arguments[1]);
    d_model = size_argument(arguments[2]);
    kv_dim = size_argument(arguments[3]);
  } else if (count != 1) {
    fprintf(stderr, "usage: qkv [SEQ D_MODEL KV_DIM]\n");
    return 2;
  }
  if (iron_abi_version() != IRON_ABI_VERSION) {
    fprintf(stderr, "qkv: the library has ABI version %u, the header %u\n", iron_abi_version(), IRON_ABI_VERSION);
    return 1;
  }

  iron_device *device;
  iron_device_info info = {.size = sizeof info};
  CHECK(iron_device_open(NULL, NULL, &device));
  CHECK(iron_device_describe(device, &info));
  printf("ironbridge %s on %s\n", iron_version(), info.name);

  float *x = random_matrix(seq, d_model, 1);
  iron_tensor x_on_device = upload(device, x, seq, d_model, "x");
  projection projections[] = {
      {.name = "Q", .width = d_model}, {.name = "K", .width = kv_dim}, {.name = "V", .width = kv_dim}};
  const size_t projection_count = sizeof projections / sizeof *projections;

  iron_commands *commands;
  CHECK(iron_commands_begin(device, NULL, &commands));
  for (size_t i = 0; i < projection_count; i++) {
    projections[i].weights = random_matrix(d_model, projections[i].width, (uint32_t)i + 2);
    encode(device, commands, x_on_device, seq, d_model, &projections[i]);
  }
  CHECK(iron_commands_commit(commands));
  /* Everything but the results goes back while the device works. Reading a result waits for it. */
  CHECK(iron_commands_release(commands));
  CHECK(iron_buffer_release(x_on_device.buffer));
  CHECK(iron_device_release(device));

  bool right = true;
  for (size_t i = 0; i < projection_count; i++) {
    right &= verify(&projections[i], x, seq, d_model);
    CHECK(iron_buffer_release(projections[i].out));
    free(projections[i].weights);
  }
  free(x);

  iron_diagnostics diagnostics = {.size = sizeof diagnostics};
  CHECK(iron_diagnose(&diagnostics));
  printf("handles left over: %lld\n", (long long)diagnostics.live_handles);
  return right && diagnostics.live_handles == 0 ? 0 : 1;
}
