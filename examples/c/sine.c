/* A sine, learned by a network of 1, 64, 64 and 1 units on the device. Ends with 1 if the loss does not fall below
 * 0.0001. */
#include <math.h>
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

enum { POINTS = 64, UNITS = 64, LAYERS = 3, STEPS = 800 };
static const double PI = 3.14159265358979323846;

static iron_device *device;

static iron_tensor numbers(const float *values, size_t count) {
  iron_tensor tensor = {.dtype = IRON_F32};
  CHECK(iron_buffer_create_with_bytes(device, values, count * sizeof(float), NULL, &tensor.buffer));
  return tensor;
}

static iron_tensor zeros(size_t count) {
  iron_tensor tensor = {.dtype = IRON_F32};
  CHECK(iron_buffer_create(device, count * sizeof(float), NULL, &tensor.buffer));
  return tensor;
}

/* Weights, what Adam keeps for them, and their gradient. */
typedef struct parameter {
  size_t count;
  iron_tensor weights, gradient, first_moment, second_moment;
} parameter;

/* From -bound to bound, the same ones in every run. */
static parameter random_parameter(size_t count, float bound) {
  static uint32_t seed = 1;
  float *values = malloc(count * sizeof *values);
  if (!values) exit(1);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes, chapter 7.1 */
    values[i] = (float)(int32_t)seed * 0x1p-31f * bound;
  }
  parameter made = {count, numbers(values, count), zeros(count), zeros(count), zeros(count)};
  free(values);
  return made;
}

/* A layer, what it makes of its inputs, and the gradient of that. */
typedef struct layer {
  size_t inputs, outputs;
  parameter weight, bias;
  iron_tensor out, gradient;
} layer;

static layer make_layer(size_t inputs, size_t outputs) {
  float bound = 1 / sqrtf((float)inputs);
  return (layer){inputs, outputs, random_parameter(inputs * outputs, bound), random_parameter(outputs, bound),
                 zeros(POINTS * outputs), zeros(POINTS * outputs)};
}

static void forward(iron_commands *commands, const layer *it, iron_tensor x, int is_last) {
  iron_matmul matmul = {
      .size = sizeof matmul, .m = POINTS, .n = it->outputs, .k = it->inputs,
      .a = x, .b = it->weight.weights, .bias = it->bias.weights, .c = it->out, .transpose_b = 1,
  };
  CHECK(iron_encode_matmul(commands, &matmul));
  iron_activation in_place = {sizeof in_place, POINTS * it->outputs, it->out, it->out, 0};
  if (!is_last) CHECK(iron_encode_tanh(commands, &in_place));
}

static void backward(iron_commands *commands, const layer *it, iron_tensor x, iron_tensor x_gradient, int is_last) {
  iron_elementwise in_place = {sizeof in_place, POINTS * it->outputs, it->out, it->gradient, it->gradient};
  if (!is_last) CHECK(iron_encode_tanh_backward(commands, &in_place));
  iron_linear_backward linear = {
      .size = sizeof linear, .rows = POINTS, .inputs = it->inputs, .outputs = it->outputs, .x = x,
      .weight = it->weight.weights, .gradient = it->gradient, .x_gradient = x_gradient,
      .weight_gradient = it->weight.gradient, .bias_gradient = it->bias.gradient,
  };
  CHECK(iron_encode_linear_backward(commands, &linear));
}

static void learn(iron_commands *commands, const parameter *it, uint64_t step) {
  /* Falls as half a cosine. */
  double rate = 0.005 * (1 + cos(PI * (double)step / STEPS));
  iron_adam adam = {
      .size = sizeof adam, .count = it->count, .step = step, .gradient = it->gradient, .weights = it->weights,
      .first_moment = it->first_moment, .second_moment = it->second_moment, .learning_rate = (float)rate,
  };
  CHECK(iron_encode_adam_step(commands, &adam));
}

static void release_parameter(const parameter *it) {
  const iron_tensor all[] = {it->weights, it->gradient, it->first_moment, it->second_moment};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK(iron_buffer_release(all[i].buffer));
}

int main(void) {
  float points[POINTS], sine[POINTS];
  for (int i = 0; i < POINTS; i++) {
    points[i] = 2 * (float)i / (POINTS - 1) - 1; /* from -π to π, as numbers from -1 to 1 */
    sine[i] = (float)sin(PI * points[i]);
  }
  CHECK(iron_device_open(NULL, NULL, &device));
  const iron_tensor x = numbers(points, POINTS), target = numbers(sine, POINTS), losses = zeros(POINTS);
  const iron_tensor none = {.buffer = NULL};
  const layer layers[LAYERS] = {make_layer(1, UNITS), make_layer(UNITS, UNITS), make_layer(UNITS, 1)};
  const layer *last_layer = &layers[LAYERS - 1];
  const iron_mse mse = {sizeof mse, POINTS, 1, last_layer->out, target, last_layer->gradient, losses, 1.0f / POINTS};

  float last = 0;
  for (uint64_t step = 1; step <= STEPS; step++) {
    iron_commands *commands;
    CHECK(iron_commands_begin(device, NULL, &commands));
    for (int i = 0; i < LAYERS; i++) forward(commands, &layers[i], i ? layers[i - 1].out : x, i == LAYERS - 1);
    CHECK(iron_encode_mse(commands, &mse));
    for (int i = LAYERS - 1; i >= 0; i--)
      backward(commands, &layers[i], i ? layers[i - 1].out : x, i ? layers[i - 1].gradient : none, i == LAYERS - 1);
    for (int i = 0; i < LAYERS; i++) {
      learn(commands, &layers[i].weight, step);
      learn(commands, &layers[i].bias, step);
    }
    CHECK(iron_commands_run(commands));
    CHECK(iron_commands_release(commands));

    float loss[POINTS];
    CHECK(iron_buffer_read(losses.buffer, 0, loss, sizeof loss));
    last = 0;
    for (int i = 0; i < POINTS; i++) last += loss[i];
    if (step % 200 == 0) printf("step %4d  loss %.6f\n", (int)step, last);
  }
  printf("%s\n", last < 0.0001f ? "learned" : "NOT LEARNED");

  CHECK(iron_buffer_release(x.buffer));
  CHECK(iron_buffer_release(target.buffer));
  CHECK(iron_buffer_release(losses.buffer));
  for (int i = 0; i < LAYERS; i++) {
    release_parameter(&layers[i].weight);
    release_parameter(&layers[i].bias);
    CHECK(iron_buffer_release(layers[i].out.buffer));
    CHECK(iron_buffer_release(layers[i].gradient.buffer));
  }
  CHECK(iron_device_release(device));
  iron_diagnostics diagnostics = {.size = sizeof diagnostics};
  CHECK(iron_diagnose(&diagnostics));
  printf("handles left over: %lld\n", (long long)diagnostics.live_handles);
  return last < 0.0001f && diagnostics.live_handles == 0 ? 0 : 1;
}
