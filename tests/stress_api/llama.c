/* Models, with a tiny one: random calls on shared handles, and a whole life on handles that no other thread has. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

static const char MODEL_PATH[] = "tests/data/models/llama-tiny"; /* from the repository's root */
static const char TEMPLATE[] = "{% for message in messages %}{{ message.content }}{% endfor %}";
static const char MESSAGES[] = "[{\"role\": \"user\", \"content\": \"a b\"}]";
enum { ROOM = 64, CONTEXT = 16 };

/* Makes a handle of a kind and keeps it for all threads. */
#define CREATE(call, kind, name, ...)                                                           \
  do {                                                                                          \
    void *result = given_result(), *place = given_or_null(call, &result);                       \
    iron_status status = CALL(name, __VA_ARGS__, place);                                        \
    handles_put(call, kind, given_result_check(#name, status, place ? result : NULL));          \
  } while (0)

/* A result of unknown length into the thread's scratch memory; its second half is for arguments. */
#define INTO(call, name, ...)                                                                 \
  do {                                                                                        \
    size_t length = RESULT, capacity = capacity_for(call);                                    \
    void *room = random_chance(&(call)->random, 80) ? (call)->scratch : NULL;                 \
    if (!room && random_chance(&(call)->random, 90)) capacity = 0;                            \
    size_t *lengths = given_or_null(call, &length);                                           \
    iron_status status = CALL(name, __VA_ARGS__, room, capacity, lengths);                    \
    if (lengths && status != IRON_OK && status != IRON_ERROR_INVALID_ARGUMENT && length != 0) \
      failure("%s failed and gave a length", #name);                                          \
  } while (0)

static size_t capacity_for(Call *call) {
  return random_chance(&call->random, 70) ? SCRATCH / 16 : random_below(&call->random, 8);
}

typedef struct Tokens {
  uint32_t tokens[ROOM];
  size_t count;
} Tokens;

static Tokens tokens_for(Call *call) {
  Random *random = &call->random;
  Tokens given = {.count = 1 + random_below(random, random_chance(random, 90) ? 4 : ROOM - 1)};
  for (size_t index = 0; index < given.count; index++) given.tokens[index] = 3 + (uint32_t)random_below(random, 60);
  if (random_chance(random, 3)) given.tokens[random_below(random, given.count)] = (uint32_t)random_bits(random);
  if (random_chance(random, 3)) given.count = 0;
  return given;
}

static uint32_t sequence_for(Call *call) {
  Random *random = &call->random;
  return random_chance(random, 95) ? (uint32_t)random_below(random, 2) : (uint32_t)random_bits(random);
}

static size_t text_length(const char *text) { return text ? strlen(text) : 0; }

static uint32_t progress(uint64_t done, uint64_t total, void *context) {
  record_callback();
  if (done > total) failure("progress of %llu of %llu", (unsigned long long)done, (unsigned long long)total);
  if (!context) return 0; /* options that end before progress_context */
  return random_chance(&((Call *)context)->random, 5);
}

static uint32_t write_piece(const iron_piece *piece, void *context) {
  Call *call = context;
  record_callback();
  if (piece->size != sizeof *piece || strlen(piece->text) > piece->text_length || piece->token == IRON_NO_TOKEN)
    failure("a piece is not what the header says");
  if (random_chance(&call->random, 5)) calls_make_within(call);
  return random_chance(&call->random, 10);
}

static void mask(const uint32_t *tokens, size_t token_count, float *logits, size_t logit_count, void *context) {
  (void)tokens, (void)token_count, (void)context;
  record_callback();
  for (size_t index = 0; index < logit_count; index += 2) logits[index] = -1e9f;
}

static uint32_t sample(const uint32_t *tokens, size_t token_count, const float *logits, size_t logit_count,
                       void *context) {
  (void)tokens, (void)token_count, (void)logits;
  record_callback();
  Call *call = context;
  if (!call) return 0; /* options that end before sample_context */
  return (uint32_t)random_below(&call->random, logit_count + 1);
}

static void visit_key(const char *key, size_t length, void *context) {
  (void)context;
  record_callback();
  if (strlen(key) != length) failure("a key of %zu bytes has %zu", length, strlen(key));
}

static void visit_tensor(const iron_model_tensor *tensor, void *context) {
  (void)context;
  record_callback();
  if (tensor->size != sizeof *tensor || !tensor->bytes || !tensor->byte_length || !*tensor->name || !*tensor->type)
    failure("a tensor is not what the header says");
}

static iron_sampler_options sampler_for(Call *call) {
  Random *random = &call->random;
  iron_sampler_options options = {.size = sizeof options, .seed = random_bits(random)};
  if (random_chance(random, 60)) options.temperature = 0.8f;
  if (random_chance(random, 30)) options.top_p = 0.9f;
  if (random_chance(random, 30)) options.top_k = (uint32_t)random_below(random, 50);
  if (random_chance(random, 5)) options.min_p = random_float(random);
  if (random_chance(random, 5)) options.repetition_penalty = random_float(random);
  return options;
}

/* `sampler` is a place for what the options lead to. */
static void fill_generation(Call *call, iron_generation_options *options, iron_sampler_options *sampler) {
  static const char *const strings[] = {"e", "th"};
  Random *random = &call->random;
  *sampler = sampler_for(call);
  options->sampler = given_or_null(call, sampler);
  options->limit = 1 + random_below(random, 5);
  if (random_chance(random, 20)) options->stop_strings = strings, options->stop_string_count = 2;
  if (random_chance(random, 20)) {
    options->log_probabilities = 1;
    options->likeliest = (uint32_t)random_below(random, 4);
  }
  if (random_chance(random, 10)) options->mask = mask;
  if (random_chance(random, 30)) options->cancel = handles_any(call, CANCEL);
  if (random_chance(random, 30)) {
    options->when_full = random_constant(random, 0, 1);
    options->keep = random_below(random, 4);
  }
}

/* Cancels, samplers */
static void cancel_create(Call *call) {
  void *result = given_result(), *place = given_or_null(call, &result);
  iron_status status = CALL(iron_cancel_create, place);
  handles_put(call, CANCEL, given_result_check("iron_cancel_create", status, place ? result : NULL));
}
static void cancel_set(Call *call) { CALL(iron_cancel_set, handles_any(call, CANCEL)); }
static void cancel_is_set(Call *call) {
  uint32_t set = 0;
  CALL(iron_cancel_is_set, handles_any(call, CANCEL), given_or_null(call, &set));
}
static void sampler_create(Call *call) {
  GIVEN(iron_sampler_options) options = {.value = sampler_for(call)};
  given_input(call, &options, sizeof options.value);
  CREATE(call, SAMPLER, iron_sampler_create, given_or_null(call, &options));
}
static void sampler_sample(Call *call) {
  Tokens given = tokens_for(call);
  float logits[ROOM];
  for (int index = 0; index < ROOM; index++) logits[index] = (float)random_below(&call->random, 100);
  if (random_chance(&call->random, 5)) logits[3] = random_float(&call->random);
  uint32_t token = 0;
  CALL(iron_sampler_sample, handles_any(call, SAMPLER), given.tokens, given.count, logits, ROOM,
       random_chance(&call->random, 30) ? mask : NULL, NULL, given_or_null(call, &token));
}

/* Files and models */
static const char *path_for(Call *call) { return random_chance(&call->random, 90) ? MODEL_PATH : given_text(call); }
static void file_open(Call *call) { CREATE(call, MODEL_FILE, iron_model_file_open, path_for(call)); }
static void file_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_model_file_describe, handles_any(call, MODEL_FILE), iron_model_file_info);
}
static void file_metadata(Call *call) {
  const char *key = random_chance(&call->random, 80) ? "general.architecture" : given_text(call);
  INTO(call, iron_model_file_metadata, handles_any(call, MODEL_FILE), key);
}
static void file_keys(Call *call) {
  CALL(iron_model_file_keys, handles_any(call, MODEL_FILE), random_chance(&call->random, 95) ? visit_key : NULL, call);
}
static void file_tensors(Call *call) {
  iron_model_tensor_callback visit = random_chance(&call->random, 95) ? visit_tensor : NULL;
  CALL(iron_model_file_tensors, handles_any(call, MODEL_FILE), visit, call);
}
static void model_load(Call *call) {
  GIVEN(iron_load_options) options = {.value = {.weights = random_constant(&call->random, 0, 3)}};
  if (random_chance(&call->random, 30)) options.value.progress = progress, options.value.progress_context = call;
  given_input(call, &options, sizeof options.value);
  void *device = handles_any(call, DEVICE), *given = given_or_null(call, &options);
  if (random_chance(&call->random, 50))
    CREATE(call, MODEL, iron_model_load, device, handles_any(call, MODEL_FILE), given);
  else
    CREATE(call, MODEL, iron_model_open, device, path_for(call), given);
}
static void model_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_model_describe, handles_any(call, MODEL), iron_model_info);
}
static void model_layer(Call *call) {
  GIVEN(iron_layer_info) info;
  given_output(call, &info, sizeof info.value);
  uint64_t layer = random_chance(&call->random, 80) ? 0 : random_bits(&call->random);
  iron_status status = CALL(iron_model_describe_layer, handles_any(call, MODEL), layer, given_or_null(call, &info));
  given_output_check("iron_model_describe_layer", status, &info, sizeof info.value);
}
static void model_parts(Call *call) {
  INTO(call, iron_model_chat_template, handles_any(call, MODEL));
  CREATE(call, TOKENIZER, iron_model_tokenizer, handles_any(call, MODEL));
  iron_device *device = NULL;
  if (CALL(iron_model_device, handles_any(call, MODEL), given_or_null(call, &device)) == IRON_OK && device)
    CALL(iron_device_release, device);
  CALL(iron_model_settle, handles_any(call, MODEL));
}
static void model_encode(Call *call) {
  const char *text = given_text(call);
  INTO(call, iron_model_encode_prompt, handles_any(call, MODEL), text, text_length(text));
}

/* Tokenizers and chats */
static void tokenizer_create(Call *call) {
  CREATE(call, TOKENIZER, iron_tokenizer_create, handles_any(call, MODEL_FILE));
}
static void tokenizer_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_tokenizer_describe, handles_any(call, TOKENIZER), iron_tokenizer_info);
}
static void tokenizer_code(Call *call) {
  const char *text = given_text(call);
  Tokens given = tokens_for(call);
  uint32_t token = given.tokens[0], kind, found, flags = random_constant(&call->random, 0, 3);
  INTO(call, iron_tokenizer_encode, handles_any(call, TOKENIZER), text, text_length(text), flags);
  INTO(call, iron_tokenizer_decode, handles_any(call, TOKENIZER), given.tokens, given.count);
  size_t length = 0;
  CALL(iron_tokenizer_piece, handles_any(call, TOKENIZER), token, (char *)call->scratch, 512, &length,
       given_or_null(call, &kind));
  CALL(iron_tokenizer_find, handles_any(call, TOKENIZER), random_chance(&call->random, 50) ? "<s>" : text, &found);
  CALL(iron_tokenizer_is_end, handles_any(call, TOKENIZER), token, given_or_null(call, &found));
}
static void decoder_create(Call *call) {
  CREATE(call, DECODER, iron_decoder_create, handles_any(call, TOKENIZER), random_constant(&call->random, 0, 1));
}
/* What is lent is only safe to read while no other thread uses the decoder. */
static void decoder_push(Call *call) {
  const char *text = NULL;
  size_t length = 0;
  CALL(iron_decoder_push, handles_any(call, DECODER), tokens_for(call).tokens[0], given_or_null(call, &text), &length);
  CALL(iron_decoder_finish, handles_any(call, DECODER), given_or_null(call, &text), &length);
}
static void chat_create(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_chat_options) options = {.value = {.source = random_chance(random, 90) ? TEMPLATE : given_text(call)}};
  if (random_chance(random, 20)) options.value.variables = random_chance(random, 50) ? "{}" : given_text(call);
  if (random_chance(random, 20)) options.value.max_output = random_below(&call->random, 8);
  given_input(call, &options, sizeof options.value);
  CREATE(call, CHAT, iron_chat_create, handles_any(call, MODEL), given_or_null(call, &options));
}
static void chat_encode(Call *call) {
  const char *messages = random_chance(&call->random, 80) ? MESSAGES : given_text(call);
  INTO(call, iron_chat_encode, handles_any(call, CHAT), messages);
  INTO(call, iron_chat_render, handles_any(call, CHAT), messages, random_constant(&call->random, 0, 1));
}

/* Sessions */
static void session_create(Call *call) {
  Random *random = &call->random;
  GIVEN(iron_session_options) options = {.value = {.sequences = 2, .context = CONTEXT, .batch = 8}};
  if (random_chance(random, 10)) options.value.cache = random_constant(random, 0, 2);
  if (random_chance(random, 10)) options.value.activations = random_constant(random, 0, 3);
  if (random_chance(random, 5)) options.value.context = random_count(random, 64);
  given_input(call, &options, sizeof options.value);
  CREATE(call, SESSION, iron_session_create, handles_any(call, MODEL), &options.value);
}
static void session_describe(Call *call) {
  CALL_WITH_OUTPUT(call, iron_session_describe, handles_any(call, SESSION), iron_session_info);
}
static void session_model(Call *call) { CREATE(call, MODEL, iron_session_model, handles_any(call, SESSION)); }
static void session_feed(Call *call) {
  Tokens given = tokens_for(call);
  CALL(iron_session_feed, handles_any(call, SESSION), sequence_for(call), given.tokens, given.count);
}
static void session_feed_batch(Call *call) {
  Tokens first = tokens_for(call), second = tokens_for(call);
  iron_feed work[2] = {{.tokens = first.tokens, .count = first.count, .sequence = sequence_for(call)},
                       {.tokens = second.tokens, .count = second.count, .sequence = sequence_for(call)}};
  if (random_chance(&call->random, 3)) work[1].reserved[2] = 1;
  CALL(iron_session_feed_batch, handles_any(call, SESSION), work, random_below(&call->random, 3));
}
static void session_read(Call *call) {
  INTO(call, iron_session_tokens, handles_any(call, SESSION), sequence_for(call));
  INTO(call, iron_session_logits, handles_any(call, SESSION), sequence_for(call));
  INTO(call, iron_session_save, handles_any(call, SESSION), sequence_for(call));
}
static void session_change(Call *call) {
  Tokens given = tokens_for(call);
  uint64_t kept = 0, start = random_below(&call->random, CONTEXT);
  CALL(iron_session_rewind, handles_any(call, SESSION), sequence_for(call), random_count(&call->random, CONTEXT));
  CALL(iron_session_keep_prefix, handles_any(call, SESSION), sequence_for(call), given.tokens, given.count,
       given_or_null(call, &kept));
  CALL(iron_session_forget, handles_any(call, SESSION), sequence_for(call), start,
       start + random_below(&call->random, 3));
  CALL(iron_session_copy, handles_any(call, SESSION), sequence_for(call), sequence_for(call));
  CALL(iron_session_restore, handles_any(call, SESSION), sequence_for(call), call->scratch,
       random_below(&call->random, 4096));
}
static void session_judge(Call *call) {
  Tokens given = tokens_for(call);
  unsigned char *room = call->scratch;
  size_t length = 0;
  CALL(iron_session_log_probabilities, handles_any(call, SESSION), sequence_for(call), given.tokens, given.count,
       (double *)(void *)room, ROOM, &length);
  CALL(iron_session_embed, handles_any(call, SESSION), sequence_for(call), given.tokens, given.count,
       random_constant(&call->random, 0, 1), (float *)(void *)room, SCRATCH / 8, &length);
  GIVEN(iron_perplexity_options) options = {.value = {.stride = random_below(&call->random, 5)}};
  if (random_chance(&call->random, 30)) options.value.progress = progress, options.value.progress_context = call;
  given_input(call, &options, sizeof options.value);
  GIVEN(iron_perplexity) found;
  given_output(call, &found, sizeof found.value);
  iron_status status = CALL(iron_session_perplexity, handles_any(call, SESSION), sequence_for(call), given.tokens,
                            given.count, &options.value, &found.value);
  given_output_check("iron_session_perplexity", status, &found, sizeof found.value);
}

/* Texts. Callbacks of what other threads may use get no context of this call's. */
static void generate(Call *call) {
  Tokens given = tokens_for(call);
  iron_sampler_options sampler;
  GIVEN(iron_generation_options) options = {.value = {.size = 0}};
  fill_generation(call, &options.value, &sampler);
  if (random_chance(&call->random, 10)) options.value.sample = sample, options.value.sample_context = call;
  given_input(call, &options, sizeof options.value);
  GIVEN(iron_generation_info) info;
  given_output(call, &info, sizeof info.value);
  void *place = given_or_null(call, &info);
  iron_status status =
      CALL(iron_generate, handles_any(call, SESSION), sequence_for(call), given.tokens, given.count,
           given_or_null(call, &options), random_chance(&call->random, 90) ? write_piece : NULL, call, place);
  if (place) given_output_check("iron_generate", status, &info, sizeof info.value);
}
static void generation_create(Call *call) {
  Tokens given = tokens_for(call);
  iron_sampler_options sampler;
  GIVEN(iron_generation_options) options = {.value = {.size = 0}};
  fill_generation(call, &options.value, &sampler);
  given_input(call, &options, sizeof options.value);
  void *session = handles_any(call, SESSION), *chosen = given_or_null(call, &options);
  CREATE(call, GENERATION, iron_generation_create, session, sequence_for(call), given.tokens, given.count, chosen);
}
static void generation_next(Call *call) {
  CALL_WITH_OUTPUT(call, iron_generation_next, handles_any(call, GENERATION), iron_piece);
  CALL_WITH_OUTPUT(call, iron_generation_describe, handles_any(call, GENERATION), iron_generation_info);
}
static void writer_create(Call *call) {
  Tokens given = tokens_for(call);
  iron_sampler_options sampler;
  GIVEN(iron_generation_options) options = {.value = {.size = 0}};
  fill_generation(call, &options.value, &sampler);
  given_input(call, &options, sizeof options.value);
  void *model = handles_any(call, MODEL), *chosen = given_or_null(call, &options);
  CREATE(call, WRITER, iron_writer_create, model, given.tokens, given.count, chosen);
}
static void writer_write(Call *call) {
  GIVEN(iron_piece) piece;
  given_output(call, &piece, sizeof piece.value);
  void *place = given_or_null(call, &piece), *writer = handles_any(call, WRITER);
  iron_status status = CALL(iron_session_write, handles_any(call, SESSION), sequence_for(call), writer, place);
  if (place) given_output_check("iron_session_write", status, &piece, sizeof piece.value);
  CALL_WITH_OUTPUT(call, iron_writer_describe, handles_any(call, WRITER), iron_generation_info);
  INTO(call, iron_writer_tokens, handles_any(call, WRITER));
  static const float logits[1 << 12];
  given_output(call, &piece, sizeof piece.value);
  size_t logit_count = (size_t)1 << random_below(&call->random, 13);
  status = CALL(iron_writer_write, handles_any(call, WRITER), logits, logit_count, &piece.value);
  given_output_check("iron_writer_write", status, &piece, sizeof piece.value);
}

static void quantize(Call *call) {
  const char *type = NULL;
  size_t length = 0;
  float numbers[64];
  for (int index = 0; index < 64; index++) numbers[index] = (float)index;
  if (random_chance(&call->random, 5)) numbers[7] = random_float(&call->random);
  CALL(iron_quantize_type, (uint32_t)random_below(&call->random, 20), given_or_null(call, &type));
  CALL(iron_quantize, random_chance(&call->random, 80) ? "Q8_0" : given_text(call), numbers,
       random_chance(&call->random, 80) ? 64 : random_below(&call->random, 64), call->scratch, SCRATCH / 16, &length);
  /* There is a folder at the path: nothing is written. life() writes a file. */
  CALL(iron_quantize_file, handles_any(call, MODEL_FILE), ".", NULL, NULL);
}

static void retain(Call *call) {
#define RETAIN(KIND, name)                                                        \
  do {                                                                            \
    void *handle = handles_any(call, KIND);                                       \
    if (CALL(name, handle) == IRON_OK) handles_put(call, KIND, handle);           \
  } while (0)
  switch (random_below(&call->random, 10)) {
    case 0: RETAIN(MODEL_FILE, iron_model_file_retain); break;
    case 1: RETAIN(MODEL, iron_model_retain); break;
    case 2: RETAIN(TOKENIZER, iron_tokenizer_retain); break;
    case 3: RETAIN(DECODER, iron_decoder_retain); break;
    case 4: RETAIN(CHAT, iron_chat_retain); break;
    case 5: RETAIN(SESSION, iron_session_retain); break;
    case 6: RETAIN(SAMPLER, iron_sampler_retain); break;
    case 7: RETAIN(GENERATION, iron_generation_retain); break;
    case 8: RETAIN(WRITER, iron_writer_retain); break;
    default: RETAIN(CANCEL, iron_cancel_retain); break;
  }
}
static void release(Call *call) {
  Kind kind = (Kind)(MODEL_FILE + random_below(&call->random, CANCEL - MODEL_FILE + 1));
  handles_release(kind, handles_take(call, kind));
}

/* Whether this thread had one. */
static _Thread_local bool lived;

/* One of each, shared with nobody until the end: what needs others can succeed. */
static void life(Call *call) {
  iron_device *device = handles_witness();
  call->group = 0;
  iron_model_file *file = NULL;
  iron_model *model = NULL;
  iron_session *session = NULL;
  if (CALL(iron_model_file_open, MODEL_PATH, &file) != IRON_OK) {
    failure("the tiny model cannot be opened: %s", iron_last_error());
    return;
  }
  handles_own(record_own_thread(), NULL, file);
  CALL(iron_model_load, device, file, NULL, &model);
  char path[64];
  snprintf(path, sizeof path, "/tmp/stress-api-%d-%u.gguf", (int)getpid(), record_own_thread());
  iron_quantize_options quantized = {.size = sizeof quantized, .overwrite = 1, .threads = 1};
  /* Files are slow: the first life has some. */
  bool writes = random_chance(&call->random, 10) || !lived;
  lived = true;
  if (writes && CALL(iron_quantize_file, file, path, &quantized, NULL) == IRON_OK) remove(path);
  handles_own(record_own_thread(), file, NULL);
  handles_put(call, MODEL_FILE, file);
  if (!model) return;
  handles_own(record_own_thread(), NULL, model);
  iron_session_options options = {.size = sizeof options, .sequences = 2, .context = CONTEXT, .batch = 8};
  CALL(iron_session_create, model, &options, &session);
  handles_own(record_own_thread(), model, NULL);
  handles_put(call, MODEL, model);
  if (!session) return;
  handles_own(record_own_thread(), NULL, session);
  const uint32_t tokens[] = {5, 6, 7};
  size_t length = 0;
  if (CALL(iron_session_feed, session, 0, tokens, 3) == IRON_OK) {
    CALL(iron_session_copy, session, 0, 1);
    CALL(iron_session_logits, session, 0, NULL, 0, &length);
    if (CALL(iron_session_save, session, 0, call->scratch, SCRATCH, &length) == IRON_OK &&
        CALL(iron_session_restore, session, 1, call->scratch, length) != IRON_OK)
      failure("what was saved cannot be restored: %s", iron_last_error());
    if (writes && CALL(iron_session_save_file, session, 0, path) == IRON_OK) {
      CALL(iron_session_restore_file, session, 1, path);
      remove(path);
    }
    CALL(iron_session_forget, session, 0, 1, 2);
    CALL(iron_session_rewind, session, 0, 0);
    iron_perplexity perplexity = {.size = sizeof perplexity};
    CALL(iron_session_perplexity, session, 0, tokens, 3, NULL, &perplexity);
  }
  handles_own(record_own_thread(), session, NULL);
  handles_put(call, SESSION, session);
}

static const Entry entries[] = {
    {life, 2},           {cancel_create, 4},    {cancel_set, 1},       {cancel_is_set, 2},     {sampler_create, 3},
    {sampler_sample, 5}, {file_open, 1},        {file_describe, 2},    {file_metadata, 2},     {file_keys, 1},
    {file_tensors, 1},   {model_load, 1},       {model_describe, 3},   {model_layer, 2},       {model_parts, 3},
    {model_encode, 4},   {tokenizer_create, 1}, {tokenizer_describe, 2}, {tokenizer_code, 4},  {decoder_create, 2},
    {decoder_push, 4},   {chat_create, 2},      {chat_encode, 2},      {session_create, 3},    {session_describe, 2},
    {session_model, 1},  {session_feed, 8},     {session_feed_batch, 6}, {session_read, 6},    {session_change, 5},
    {session_judge, 3},  {generate, 5},         {generation_create, 5}, {generation_next, 10}, {writer_create, 4},
    {writer_write, 6},   {quantize, 2},         {retain, 6},           {release, 4},
};
const Entries llama_calls = {entries, sizeof entries / sizeof *entries};
