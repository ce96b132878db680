/* Eight texts that are written together: a pass reads the weights once for all of them.
 *
 *   batch MODEL [PROMPT] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ironbridge_llama.h"

enum { TEXTS = 8, TOKENS = 12, ROOM = 256, LONGEST = 4096 };

static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

int main(int count, char **arguments) {
  if (count < 2 || count > 3) {
    fprintf(stderr, "usage: batch MODEL [PROMPT]\n");
    return 2;
  }
  const char *text = count > 2 ? arguments[2] : "Ownership is";
  iron_device *device;
  iron_model *model;
  iron_session *session;
  iron_writer *writers[TEXTS];
  iron_session_options options = {.size = sizeof options, .sequences = TEXTS, .context = ROOM};
  CHECK(iron_device_open(NULL, NULL, &device));
  CHECK(iron_model_open(device, arguments[1], NULL, &model));
  CHECK(iron_session_create(model, &options, &session));

  /* The prompt is computed once and copied. Each text has a seed of its own. */
  uint32_t prompt[ROOM], next[TEXTS];
  size_t length;
  CHECK(iron_model_encode_prompt(model, text, strlen(text), prompt, ROOM, &length));
  CHECK(iron_session_feed(session, 0, prompt, length));
  CHECK(iron_session_rewind(session, 0, length - 1));
  static char texts[TEXTS][LONGEST];
  iron_feed work[TEXTS];
  size_t open = 0;
  for (uint32_t index = 0; index < TEXTS; index++) {
    iron_sampler_options sampler = {.size = sizeof sampler, .temperature = 1, .top_p = 0.95f, .seed = index};
    iron_generation_options manner = {.size = sizeof manner, .sampler = &sampler, .limit = TOKENS};
    CHECK(iron_writer_create(model, prompt, length, &manner, &writers[index]));
    CHECK(iron_session_copy(session, 0, index));
    work[open++] = (iron_feed){.sequence = index, .tokens = &prompt[length - 1], .count = 1};
  }
  while (open > 0) {
    CHECK(iron_session_feed_batch(session, work, open));
    size_t fed = open;
    open = 0;
    for (size_t place = 0; place < fed; place++) {
      uint32_t index = work[place].sequence;
      iron_piece piece = {.size = sizeof piece};
      CHECK(iron_session_write(session, index, writers[index], &piece));
      strncat(texts[index], piece.text, LONGEST - 1 - strlen(texts[index]));
      next[index] = piece.token;
      if (piece.stop == IRON_STOP_NONE)
        work[open++] = (iron_feed){.sequence = index, .tokens = &next[index], .count = 1};
    }
  }
  for (uint32_t index = 0; index < TEXTS; index++) {
    printf("%u: %s%s\n", index, text, texts[index]);
    CHECK(iron_writer_release(writers[index]));
  }
  CHECK(iron_session_release(session));
  CHECK(iron_model_release(model));
  CHECK(iron_device_release(device));
  return 0;
}
