/* Writes text with a LLaMA model, token by token.
 *
 *   generate MODEL [PROMPT [TOKENS]]      MODEL is a GGUF file or a folder of Hugging Face's */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ironbridge_llama.h"

/* Ends the program with the library's own sentence when a call failed. */
static void check(iron_status status, const char *call) {
  if (status == IRON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, iron_status_name(status), iron_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

static uint32_t show_progress(uint64_t done, uint64_t total, void *context) {
  (void)context;
  if (done == total) fprintf(stderr, "loaded %llu bytes\n", (unsigned long long)total);
  return 0; /* anything else ends the loading */
}

static uint32_t print_piece(const iron_piece *piece, void *context) {
  (void)context;
  fwrite(piece->text, 1, piece->text_length, stdout);
  fflush(stdout);
  return 0; /* anything else ends the text */
}

static double rate(uint64_t tokens, uint64_t nanoseconds) {
  return nanoseconds ? (double)tokens / ((double)nanoseconds * 1e-9) : 0;
}

int main(int count, char **arguments) {
  if (count < 2 || count > 4) {
    fprintf(stderr, "usage: generate MODEL [PROMPT [TOKENS]]\n");
    return 2;
  }
  const char *text = count > 2 ? arguments[2] : "Ownership is";

  iron_device *device;
  iron_model *model;
  iron_session *session;
  iron_load_options loading = {.size = sizeof loading, .progress = show_progress};
  CHECK(iron_device_open(NULL, NULL, &device));
  CHECK(iron_model_open(device, arguments[1], &loading, &model));
  CHECK(iron_session_create(model, NULL, &session));

  size_t tokens; /* first how many, then which */
  CHECK(iron_model_encode_prompt(model, text, strlen(text), NULL, 0, &tokens));
  uint32_t *prompt = calloc(tokens ? tokens : 1, sizeof *prompt);
  if (!prompt) return 1;
  CHECK(iron_model_encode_prompt(model, text, strlen(text), prompt, tokens, &tokens));

  iron_generation_options options = {.size = sizeof options, .limit = 24};
  if (count > 3) options.limit = strtoull(arguments[3], NULL, 10);
  iron_generation_info info = {.size = sizeof info};
  printf("%s", text);
  CHECK(iron_generate(session, 0, prompt, tokens, &options, print_piece, NULL, &info));
  printf("\n");
  fprintf(stderr, "prompt: %.1f tokens/s, text: %.1f tokens/s\n", rate(info.prompt_tokens, info.prompt_time),
          rate(info.generated_tokens - 1, info.generation_time));

  free(prompt);
  CHECK(iron_session_release(session));
  CHECK(iron_model_release(model));
  CHECK(iron_device_release(device));
  return 0;
}
