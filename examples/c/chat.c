/* A conversation with a chat model: each line of the input is a question. What was said before is not computed again.
 *
 *   chat MODEL [TEMPLATE]      TEMPLATE, in Jinja's language, is for models whose file has none */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ironbridge_llama.h"

enum { LONGEST = 1 << 16 };

static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

static void append(char *json, const char *bytes, size_t length) {
  size_t used = strlen(json);
  if (length > LONGEST - 1 - used) length = LONGEST - 1 - used;
  memcpy(json + used, bytes, length);
  json[used + length] = '\0';
}

/* Appends the bytes of a text as JSON has them between quotes. */
static void append_escaped(char *json, const char *text, size_t length) {
  char escape[8];
  for (size_t i = 0; i < length; i++) {
    int plain = (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\';
    snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)text[i]);
    append(json, plain ? &text[i] : escape, plain ? 1 : strlen(escape));
  }
}

static uint32_t answer(const iron_piece *piece, void *messages) {
  fwrite(piece->text, 1, piece->text_length, stdout);
  append_escaped(messages, piece->text, piece->text_length);
  return 0;
}

int main(int count, char **arguments) {
  static char messages[LONGEST] = "[", line[4096];
  static uint32_t tokens[LONGEST];
  iron_device *device;
  iron_model *model;
  iron_session *session;
  iron_chat *chat;
  if (count < 2 || count > 3) return 2;
  iron_chat_options options = {.size = sizeof options, .source = count > 2 ? arguments[2] : NULL};
  CHECK(iron_device_open(NULL, NULL, &device));
  CHECK(iron_model_open(device, arguments[1], NULL, &model));
  CHECK(iron_chat_create(model, &options, &chat));
  CHECK(iron_session_create(model, NULL, &session));

  iron_sampler_options sampler = {.size = sizeof sampler, .temperature = 0.7f, .top_p = 0.9f, .seed = 1};
  iron_generation_options manner = {.size = sizeof manner, .sampler = &sampler, .limit = 64};
  while (fgets(line, sizeof line, stdin)) {
    append(messages, "{\"role\":\"user\",\"content\":\"", 26);
    append_escaped(messages, line, strcspn(line, "\n"));
    append(messages, "\"}]", 3);
    size_t length;
    uint64_t kept;
    CHECK(iron_chat_encode(chat, messages, tokens, LONGEST, &length));
    CHECK(iron_session_keep_prefix(session, 0, tokens, length, &kept));
    fprintf(stderr, "%zu tokens, %llu of them known\n", length, (unsigned long long)kept);
    messages[strlen(messages) - 1] = '\0'; /* the array goes on */
    append(messages, ",{\"role\":\"assistant\",\"content\":\"", 32);
    CHECK(iron_generate(session, 0, tokens + kept, length - kept, &manner, answer, messages, NULL));
    append(messages, "\"},", 3);
    printf("\n");
  }
  CHECK(iron_chat_release(chat));
  CHECK(iron_session_release(session));
  CHECK(iron_model_release(model));
  CHECK(iron_device_release(device));
  return 0;
}
