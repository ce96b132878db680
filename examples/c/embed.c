/* Which of some texts are near to the first one, by the vectors that a model makes of them.
 *
 *   embed MODEL TEXT TEXT... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ironbridge_llama.h"

static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

/* The vector of a text, of length 1. The session begins anew. */
static void embed(iron_model *model, iron_session *session, const char *text, float *vector, size_t width) {
  size_t count;
  CHECK(iron_model_encode_prompt(model, text, strlen(text), NULL, 0, &count));
  uint32_t *tokens = calloc(count ? count : 1, sizeof *tokens);
  if (!tokens) exit(1);
  CHECK(iron_model_encode_prompt(model, text, strlen(text), tokens, count, &count));
  CHECK(iron_session_rewind(session, 0, 0));
  CHECK(iron_session_embed(session, 0, tokens, count, IRON_POOLING_MEAN, vector, width, &width));
  free(tokens);
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: embed MODEL TEXT TEXT...\n");
    return 2;
  }
  iron_device *device;
  iron_model *model;
  iron_session *session;
  iron_model_info info = {.size = sizeof info};
  CHECK(iron_device_open(NULL, NULL, &device));
  CHECK(iron_model_open(device, arguments[1], NULL, &model));
  CHECK(iron_model_describe(model, &info));
  CHECK(iron_session_create(model, NULL, &session));

  size_t width = (size_t)info.width;
  float *first = calloc(width, sizeof *first), *other = calloc(width, sizeof *other);
  if (!first || !other) return 1;
  embed(model, session, arguments[2], first, width);
  for (int index = 2; index < count; index++) {
    double cosine = 0;
    embed(model, session, arguments[index], other, width);
    for (size_t place = 0; place < width; place++) cosine += (double)first[place] * (double)other[place];
    printf("%.4f  %s\n", cosine, arguments[index]);
  }

  free(first);
  free(other);
  CHECK(iron_session_release(session));
  CHECK(iron_model_release(model));
  CHECK(iron_device_release(device));
  return 0;
}
