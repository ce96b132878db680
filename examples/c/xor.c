/* Exclusive or, learned by a network of 2, 4 and 1 units on the device: forward, backward and Adam, each operation by
 * its function. Ends with 1 if the loss does not fall below 0.001. */
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

enum { PAIRS = 4, INPUTS = 2, HIDDEN = 4, STEPS = 600 };

static iron_device *device;

static iron_tensor zeros(size_t count) {
  iron_tensor tensor = {.dtype = IRON_F32};
  CHECK(iron_buffer_create(device, count * sizeof(float), NULL, &tensor.buffer));
  return tensor;
}

static iron_tensor numbers(const float *values, size_t count) {
  iron_tensor tensor = {.dtype = IRON_F32};
  CHECK(iron_buffer_create_with_bytes(device, values, count * sizeof(float), NULL, &tensor.buffer));
  return tensor;
}

/* Weights, what Adam keeps for them, and their gradient. */
typedef struct parameter {
  size_t count;
  iron_tensor weights, gradient, first_moment, second_moment;
} parameter;

/* From -1 to 1, the same ones in every run. */
static parameter random_parameter(size_t count) {
  static uint32_t seed = 1;
  float values[INPUTS * HIDDEN];
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes, chapter 7.1 */
    values[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  return (parameter){count, numbers(values, count), zeros(count), zeros(count), zeros(count)};
}

static void learn(iron_commands *commands, const parameter *it, uint64_t step) {
  iron_adam adam = {
      .size = sizeof adam, .count = it->count, .step = step, .gradient = it->gradient, .weights = it->weights,
      .first_moment = it->first_moment, .second_moment = it->second_moment, .learning_rate = 0.05f,
  };
  CHECK(iron_encode_adam_step(commands, &adam));
}

static void forward(iron_commands *commands, iron_tensor x, size_t inputs, const parameter *weight,
                    const parameter *bias, size_t outputs, iron_tensor y) {
  iron_matmul matmul = {
      .size = sizeof matmul, .m = PAIRS, .n = outputs, .k = inputs,
      .a = x, .b = weight->weights, .bias = bias->weights, .c = y, .transpose_b = 1,
  };
  CHECK(iron_encode_matmul(commands, &matmul));
}

static void backward(iron_commands *commands, iron_tensor x, size_t inputs, const parameter *weight,
                     const parameter *bias, size_t outputs, iron_tensor gradient, iron_tensor x_gradient) {
  iron_linear_backward linear = {
      .size = sizeof linear, .rows = PAIRS, .inputs = inputs, .outputs = outputs, .x = x, .weight = weight->weights,
      .gradient = gradient, .x_gradient = x_gradient, .weight_gradient = weight->gradient,
      .bias_gradient = bias->gradient,
  };
  CHECK(iron_encode_linear_backward(commands, &linear));
}

static void release(iron_tensor tensor) { CHECK(iron_buffer_release(tensor.buffer)); }

int main(void) {
  static const float pairs[PAIRS * INPUTS] = {0, 0, 0, 1, 1, 0, 1, 1}, wanted[PAIRS] = {0, 1, 1, 0};
  CHECK(iron_device_open(NULL, NULL, &device));
  const iron_tensor x = numbers(pairs, PAIRS * INPUTS), target = numbers(wanted, PAIRS);
  parameter parameters[] = {random_parameter(HIDDEN * INPUTS), random_parameter(HIDDEN), random_parameter(HIDDEN),
                            random_parameter(1)};
  const parameter *weight = &parameters[0], *bias = &parameters[1], *weight2 = &parameters[2], *bias2 = &parameters[3];
  /* What the layers make, and the gradients of that; the functions of one element work in place. */
  const iron_tensor hidden = zeros(PAIRS * HIDDEN), answers = zeros(PAIRS), losses = zeros(PAIRS);
  const iron_tensor hidden_gradient = zeros(PAIRS * HIDDEN), gradient = zeros(PAIRS), none = {.buffer = NULL};

  const iron_activation tanh_of_hidden = {sizeof tanh_of_hidden, PAIRS * HIDDEN, hidden, hidden, 0};
  const iron_activation sigmoid_of_answers = {sizeof sigmoid_of_answers, PAIRS, answers, answers, 0};
  const iron_elementwise back_to_answers = {sizeof back_to_answers, PAIRS, answers, gradient, gradient};
  const iron_elementwise back_to_hidden = {sizeof back_to_hidden, PAIRS * HIDDEN, hidden, hidden_gradient,
                                           hidden_gradient};
  const iron_mse mse = {sizeof mse, PAIRS, 1, answers, target, gradient, losses, 1.0f / PAIRS};

  float last = 0;
  for (uint64_t step = 1; step <= STEPS; step++) {
    iron_commands *commands;
    CHECK(iron_commands_begin(device, NULL, &commands));
    forward(commands, x, INPUTS, weight, bias, HIDDEN, hidden);
    CHECK(iron_encode_tanh(commands, &tanh_of_hidden));
    forward(commands, hidden, HIDDEN, weight2, bias2, 1, answers);
    CHECK(iron_encode_sigmoid(commands, &sigmoid_of_answers));
    CHECK(iron_encode_mse(commands, &mse));

    CHECK(iron_encode_sigmoid_backward(commands, &back_to_answers));
    backward(commands, hidden, HIDDEN, weight2, bias2, 1, gradient, hidden_gradient);
    CHECK(iron_encode_tanh_backward(commands, &back_to_hidden));
    backward(commands, x, INPUTS, weight, bias, HIDDEN, hidden_gradient, none);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) learn(commands, &parameters[i], step);
    CHECK(iron_commands_run(commands));
    CHECK(iron_commands_release(commands));

    float loss[PAIRS];
    CHECK(iron_buffer_read(losses.buffer, 0, loss, sizeof loss));
    last = loss[0] + loss[1] + loss[2] + loss[3];
    if (step % 100 == 0) printf("step %4d  loss %.6f\n", (int)step, last);
  }
  float given[PAIRS];
  CHECK(iron_buffer_read(answers.buffer, 0, given, sizeof given));
  printf("answers %.2f %.2f %.2f %.2f: %s\n", given[0], given[1], given[2], given[3],
         last < 0.001f ? "learned" : "NOT LEARNED");

  const iron_tensor tensors[] = {x, target, hidden, answers, losses, hidden_gradient, gradient};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) release(tensors[i]);
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
    release(parameters[i].weights);
    release(parameters[i].gradient);
    release(parameters[i].first_moment);
    release(parameters[i].second_moment);
  }
  CHECK(iron_device_release(device));
  iron_diagnostics diagnostics = {.size = sizeof diagnostics};
  CHECK(iron_diagnose(&diagnostics));
  printf("handles left over: %lld\n", (long long)diagnostics.live_handles);
  return last < 0.001f && diagnostics.live_handles == 0 ? 0 : 1;
}
