/* LLaMA models: files, tokenizers, chat templates, sessions, generation, embeddings, perplexity, quantization. Beside
 * ironbridge.h, whose rules on handles, threads, errors, sizes and units hold here, too.
 *
 *   iron_device *device; iron_model *model; iron_session *session;
 *   iron_device_open(NULL, NULL, &device);
 *   iron_model_open(device, "model.gguf", NULL, &model);
 *   iron_session_create(model, NULL, &session);
 *   iron_generate(session, 0, prompt, prompt_count, NULL, print_piece, NULL, NULL);
 *
 * Handles. Each kind has *_retain and *_release. A handle keeps what it was made of alive: a session its model, a model
 * its device.
 *
 * Threads. A model, a tokenizer, a chat, a model file and a cancel may be used by any number of threads at once. A
 * session, a generation, a writer, a sampler and a decoder have one user at a time: a call that meets another one on
 * the same handle fails at once with IRON_ERROR_BUSY. So does a callback that uses the handle whose call it is in.
 *
 * Callbacks run on the calling thread, during the call, and get pointers that are valid until they return. They may
 * call ironbridge. They must not throw or longjmp: ironbridge.hpp takes care of C++ exceptions.
 *
 * Results of unknown length. A function with a `capacity` writes all of its result or nothing. With a capacity of 0 and
 * a NULL place it writes nothing, succeeds and gives the length. A capacity above 0 that is too small is
 * IRON_ERROR_OUT_OF_RANGE, and the message has the length that is needed. A text needs one byte more than its length,
 * for the NUL behind it.
 *
 * Texts in are UTF-8 with a length, and may contain NUL bytes; else IRON_ERROR_INVALID_ARGUMENT. Names and paths end
 * with a NUL. JSON is a text that ends with a NUL.
 *
 * Memory. Weights and the memory of a session are made at the start, on the device, counted by category and bounded by
 * the device's limits (ironbridge_memory.h). Feeding and generating allocate none on the device.
 *
 * Errors. Beside those of ironbridge.h: IRON_ERROR_FILE, IRON_ERROR_MODEL, IRON_ERROR_CONTEXT_FULL, IRON_ERROR_CANCELED
 * and IRON_ERROR_CHAT. After a device error, make a new session; the model and the other sessions go on.
 *
 * Experimental: any version may change what is declared here. IRON_ABI_VERSION grows then.
 *
 * C11 or C++17. */
#ifndef IRONBRIDGE_LLAMA_H
#define IRONBRIDGE_LLAMA_H

#include "ironbridge.h"

#ifdef IRON_STABLE_ONLY
#error "ironbridge_llama.h is experimental as a whole, and IRON_STABLE_ONLY is defined"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iron_model_file iron_model_file;
typedef struct iron_model iron_model;
typedef struct iron_tokenizer iron_tokenizer;
typedef struct iron_decoder iron_decoder;
typedef struct iron_chat iron_chat;
typedef struct iron_session iron_session;
typedef struct iron_sampler iron_sampler;
typedef struct iron_generation iron_generation;
typedef struct iron_writer iron_writer;
typedef struct iron_cancel iron_cancel;

/* No token: where there is none to name. */
#define IRON_NO_TOKEN UINT32_MAX

/* `done` of `total`, in the unit that the function names. Anything but 0 ends the call with IRON_ERROR_CANCELED. */
typedef uint32_t (*iron_progress_callback)(uint64_t done, uint64_t total, void *context);

/* -------------------------------------------------------------------------------------------------- cancellation -- */

/* A flag that ends long calls from another thread. It takes locks: a handler of signals must not call it. */
IRON_API iron_status iron_cancel_create(iron_cancel **cancel);
/* The call that looks at it ends within a token, within a batch of a prompt, or within 4 Mi numbers of each thread that
 * quantizes. It stays set. */
IRON_API iron_status iron_cancel_set(iron_cancel *cancel);
/* 1 when it was set, else 0. */
IRON_API iron_status iron_cancel_is_set(iron_cancel *cancel, uint32_t *set);
IRON_API iron_status iron_cancel_retain(iron_cancel *cancel);
IRON_API iron_status iron_cancel_release(iron_cancel *cancel);

/* --------------------------------------------------------------------------------------------------- model files -- */

typedef enum iron_model_format {
  IRON_FORMAT_GGUF = 1,
  IRON_FORMAT_HUGGING_FACE = 2 /* a folder with config.json, .safetensors and a tokenizer */
} iron_model_format;

typedef struct iron_model_file_info {
  size_t size;
  uint32_t format;       /* iron_model_format */
  uint32_t version;      /* of GGUF; else 0 */
  uint64_t tensors;      /* how many */
  uint64_t metadata;     /* how many keys */
  uint64_t tensor_bytes; /* the sum */
} iron_model_file_info;

/* Opens a GGUF file or a folder of Hugging Face's, and reads its metadata. The weights are mapped and not read. The
 * files must not change while the handle or a model of it is in use. IRON_ERROR_FILE: it cannot be opened;
 * IRON_ERROR_MODEL: it is not what its name says. */
IRON_API iron_status iron_model_file_open(const char *path, iron_model_file **file);
IRON_API iron_status iron_model_file_describe(iron_model_file *file, iron_model_file_info *info);
/* The value of a metadata key, as JSON. Bytes of a text that are no UTF-8 become U+FFFD; numbers that JSON lacks are
 * null. IRON_ERROR_NOT_FOUND: there is no such key. */
IRON_API iron_status iron_model_file_metadata(iron_model_file *file, const char *key, char *json, size_t capacity,
                                              size_t *length);
/* `key` has `key_length` bytes and a NUL behind them. */
typedef void (*iron_key_callback)(const char *key, size_t key_length, void *context);
/* Calls `visit` for each metadata key, in the file's order. */
IRON_API iron_status iron_model_file_keys(iron_model_file *file, iron_key_callback visit, void *context);

typedef struct iron_model_tensor {
  size_t size;
  const char *name;        /* GGUF's: "blk.0.attn_q.weight" */
  const char *stored_name; /* the file's own */
  const char *type;        /* GGML's: "Q8_0" */
  const uint64_t *dimensions; /* in GGML's order: the one whose elements are side by side first */
  size_t dimension_count;
  uint64_t elements;
  const void *bytes;       /* as stored, valid as long as the file's handle */
  uint64_t byte_length;
} iron_model_tensor;
typedef void (*iron_model_tensor_callback)(const iron_model_tensor *tensor, void *context);
/* Calls `visit` for each tensor, in the file's order. */
IRON_API iron_status iron_model_file_tensors(iron_model_file *file, iron_model_tensor_callback visit, void *context);
IRON_API iron_status iron_model_file_retain(iron_model_file *file);
IRON_API iron_status iron_model_file_release(iron_model_file *file);

/* -------------------------------------------------------------------------------------------------------- models -- */

/* Where weights are. docs/LLAMA.md has the memory that each takes. */
typedef enum iron_weight_storage {
  IRON_WEIGHTS_AUTOMATIC = 0, /* moved where that is faster and there is room, else mapped */
  IRON_WEIGHTS_MAPPED = 1,    /* in the pages of the file */
  IRON_WEIGHTS_MOVED = 2,     /* mapped at first, then moved to memory of the device while the model is used */
  IRON_WEIGHTS_COPIED = 3     /* in memory of the device: the file may change or go afterwards */
} iron_weight_storage;

typedef struct iron_load_options {
  size_t size;
  uint32_t weights;                /* iron_weight_storage */
  iron_progress_callback progress; /* in bytes of tensors; NULL: none */
  void *progress_context;
} iron_load_options;

/* Loads the model at `path` (see iron_model_file_open) onto the device. `options` may be NULL. IRON_ERROR_MODEL: the
 * file is no model that can run here, and the message says why; IRON_ERROR_CANCELED: `progress` said so, and nothing is
 * left. Takes as long as reading the file. */
IRON_API iron_status iron_model_open(iron_device *device, const char *path, const iron_load_options *options,
                                     iron_model **model);
/* The same for a file that is open. Its handle may be released afterwards. */
IRON_API iron_status iron_model_load(iron_device *device, iron_model_file *file, const iron_load_options *options,
                                     iron_model **model);

typedef struct iron_model_info {
  size_t size;
  char architecture[32];     /* NUL-terminated: "llama" */
  uint64_t vocabulary;       /* tokens, and logits of a position */
  uint64_t width;            /* of an embedding */
  uint64_t layers, heads, kv_heads, head_dim, feed_forward;
  uint64_t context;          /* positions that the model was trained on */
  uint64_t rotary_dim;
  uint32_t rope_pairing;     /* iron_rope_pairing */
  float attention_scale;
  float rms_epsilon;
  uint32_t has_chat_template; /* 0 or 1 */
} iron_model_info;
IRON_API iron_status iron_model_describe(iron_model *model, iron_model_info *info);

typedef enum iron_rope_scaling {
  IRON_ROPE_PLAIN = 0,
  IRON_ROPE_LINEAR = 1, /* arXiv:2306.15595 */
  IRON_ROPE_YARN = 2    /* arXiv:2309.00071 */
} iron_rope_scaling;
/* What one layer has for itself. */
typedef struct iron_layer_info {
  size_t size;
  uint64_t window;       /* positions that a token sees, its own counted; 0: all */
  float rope_base;
  uint32_t rope_scaling; /* iron_rope_scaling */
  float rope_factor;     /* 0 for IRON_ROPE_PLAIN */
  /* of IRON_ROPE_YARN, else 0 */
  float yarn_beta_fast, yarn_beta_slow, yarn_attention_factor;
  uint64_t yarn_original_context;
} iron_layer_info;
/* IRON_ERROR_OUT_OF_RANGE: there is no such layer. */
IRON_API iron_status iron_model_describe_layer(iron_model *model, uint64_t layer, iron_layer_info *info);

/* The file's chat template, in Jinja's language. IRON_ERROR_NOT_FOUND: it has none. */
IRON_API iron_status iron_model_chat_template(iron_model *model, char *text, size_t capacity, size_t *length);
/* The model's tokenizer (+1). */
IRON_API iron_status iron_model_tokenizer(iron_model *model, iron_tokenizer **tokenizer);
/* The device that the weights are on, by a handle of its own (+1). */
IRON_API iron_status iron_model_device(iron_model *model, iron_device **device);
/* The tokens of a prompt, with the token that begins a text where the model wants one. Names of control tokens in the
 * prompt are text, so a stranger's prompt cannot end its turn. */
IRON_API iron_status iron_model_encode_prompt(iron_model *model, const char *text, size_t length, uint32_t *tokens,
                                              size_t capacity, size_t *count);
/* Moves at once all weights that IRON_WEIGHTS_MOVED would move lazily: for a server that starts. */
IRON_API iron_status iron_model_settle(iron_model *model);
IRON_API iron_status iron_model_retain(iron_model *model);
IRON_API iron_status iron_model_release(iron_model *model);

/* ---------------------------------------------------------------------------------------------------- tokenizers -- */

/* The tokenizer of a file, without its weights. */
IRON_API iron_status iron_tokenizer_create(iron_model_file *file, iron_tokenizer **tokenizer);

typedef struct iron_tokenizer_info {
  size_t size;
  uint32_t vocabulary; /* tokens */
  uint32_t bos, eos;   /* the tokens that begin and end a text; IRON_NO_TOKEN: none */
} iron_tokenizer_info;
IRON_API iron_status iron_tokenizer_describe(iron_tokenizer *tokenizer, iron_tokenizer_info *info);

enum {
  IRON_ENCODE_SPECIAL = 1,      /* adds the tokens that begin and end a text, where the model wants them */
  IRON_ENCODE_PARSE_SPECIAL = 2 /* reads names of control tokens as those tokens: not for text from strangers */
};
/* The tokens of a text. `flags`: the above, added. */
IRON_API iron_status iron_tokenizer_encode(iron_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                                           uint32_t *tokens, size_t capacity, size_t *count);
/* The text of tokens from the begin of a text. Control tokens have none, and bytes that are no UTF-8 become U+FFFD.
 * IRON_ERROR_OUT_OF_RANGE: a token is outside the vocabulary. */
IRON_API iron_status iron_tokenizer_decode(iron_tokenizer *tokenizer, const uint32_t *tokens, size_t count, char *text,
                                           size_t capacity, size_t *length);

typedef enum iron_token_kind {
  IRON_TOKEN_NORMAL = 1,
  IRON_TOKEN_UNKNOWN = 2,      /* stands for what the vocabulary cannot express */
  IRON_TOKEN_CONTROL = 3,      /* has a meaning and no text */
  IRON_TOKEN_USER_DEFINED = 4, /* never split, nor merged with its neighbors */
  IRON_TOKEN_UNUSED = 5,
  IRON_TOKEN_BYTE = 6          /* one byte, named "<0x41>" */
} iron_token_kind;
/* The bytes of a token's piece, with a NUL behind them, and its iron_token_kind. A piece of SentencePiece's has U+2581
 * for a space. `kind` may be NULL. IRON_ERROR_OUT_OF_RANGE: outside the vocabulary. */
IRON_API iron_status iron_tokenizer_piece(iron_tokenizer *tokenizer, uint32_t token, char *bytes, size_t capacity,
                                          size_t *length, uint32_t *kind);
/* The control or other token of exactly this name: "</s>". IRON_ERROR_NOT_FOUND: there is none. */
IRON_API iron_status iron_tokenizer_find(iron_tokenizer *tokenizer, const char *name, uint32_t *token);
/* 1 when a model that writes this token has finished its text or turn, else 0. */
IRON_API iron_status iron_tokenizer_is_end(iron_tokenizer *tokenizer, uint32_t token, uint32_t *is_end);
IRON_API iron_status iron_tokenizer_retain(iron_tokenizer *tokenizer);
IRON_API iron_status iron_tokenizer_release(iron_tokenizer *tokenizer);

/* Turns a stream of tokens into a stream of whole characters. `continues`: 0 at the begin of a text, where the space
 * that encoding puts there is left out; 1 behind other text. */
IRON_API iron_status iron_decoder_create(iron_tokenizer *tokenizer, uint32_t continues, iron_decoder **decoder);
/* The text that this token completes, often empty; lent, with a NUL behind it, until the decoder's next call or its
 * release. After IRON_ERROR_OUT_OF_RANGE the decoder can go on with the next token. */
IRON_API iron_status iron_decoder_push(iron_decoder *decoder, uint32_t token, const char **text, size_t *length);
/* What is left of a character that stays incomplete, as U+FFFD; lent in the same way. */
IRON_API iron_status iron_decoder_finish(iron_decoder *decoder, const char **text, size_t *length);
IRON_API iron_status iron_decoder_retain(iron_decoder *decoder);
IRON_API iron_status iron_decoder_release(iron_decoder *decoder);

/* ------------------------------------------------------------------------------------------------ chat templates -- */

typedef struct iron_chat_options {
  size_t size;
  const char *source;     /* a template in Jinja's language; NULL: that of the model */
  const char *variables;  /* a JSON object of what the template may ask for: {"tools": […]}; NULL: {} */
  /* Limits of a template, which is a stranger's program. Beyond one it ends with IRON_ERROR_CHAT. */
  uint64_t max_source;    /* bytes; 0: 1 MiB */
  uint64_t max_nesting;   /* levels; 0: 100; at most 4096 */
  uint64_t max_output;    /* bytes; 0: 16 MiB */
  uint64_t max_memory;    /* bytes; 0: 64 MiB */
  uint64_t max_steps;     /* 0: 5 million, less than a second */
} iron_chat_options;
/* Writes conversations as the model was trained to read them. `options` may be NULL. IRON_ERROR_CHAT: the template has
 * an error; IRON_ERROR_NOT_FOUND: the model has none and neither have the options. */
IRON_API iron_status iron_chat_create(iron_model *model, const iron_chat_options *options, iron_chat **chat);
/* The tokens of a conversation up to where the model is to answer. `messages`: a JSON array of objects with the text
 * "role", with "content", a text or a list, and with what else the template reads: "tool_calls", "tool_call_id",
 * "reasoning_content". A field that is null is not there; "content" may be null beside others. Only the template writes
 * control tokens; their names in messages are text. IRON_ERROR_CHAT: the template refuses the conversation or fails, in
 * its words. Runs on a thread of its own, with enough stack. */
IRON_API iron_status iron_chat_encode(iron_chat *chat, const char *messages, uint32_t *tokens, size_t capacity,
                                      size_t *count);
/* The conversation as text; `prompts`: 1 for all up to where the model is to answer, 0 without that. */
IRON_API iron_status iron_chat_render(iron_chat *chat, const char *messages, uint32_t prompts, char *text,
                                      size_t capacity, size_t *length);
IRON_API iron_status iron_chat_retain(iron_chat *chat);
IRON_API iron_status iron_chat_release(iron_chat *chat);

/* ------------------------------------------------------------------------------------------------------ sessions -- */

typedef enum iron_cache_type {
  IRON_CACHE_F32 = 0,
  IRON_CACHE_F16 = 1, /* half the memory */
  IRON_CACHE_Q8_0 = 2 /* little more than a quarter; heads are whole blocks of 32 */
} iron_cache_type;

typedef struct iron_session_options {
  size_t size;
  uint32_t sequences; /* texts that are computed together, each with a context of its own; 0: 1 */
  uint32_t cache;     /* iron_cache_type */
  uint64_t context;   /* positions of each; 0: the model's, up to 4096; UINT64_MAX: the model's */
  uint64_t batch;     /* tokens that are computed together; 0: 512 */
  uint64_t outputs;   /* positions whose logits are computed together for a perplexity; 0: one for each sequence */
  uint32_t activations; /* iron_activations, of passes of up to 16 tokens */
} iron_session_options;

/* `sequences` empty texts, numbered from 0, with all the memory that they will ever use. `options` may be NULL.
 * IRON_ERROR_OUT_OF_RANGE: a context beyond the model's; IRON_ERROR_OUT_OF_MEMORY: this is the time to refuse a
 * request. */
IRON_API iron_status iron_session_create(iron_model *model, const iron_session_options *options,
                                         iron_session **session);

typedef struct iron_session_info {
  size_t size;
  uint64_t sequences;
  uint64_t context; /* positions of each */
} iron_session_info;
IRON_API iron_status iron_session_describe(iron_session *session, iron_session_info *info);
/* The session's model (+1). */
IRON_API iron_status iron_session_model(iron_session *session, iron_model **model);
/* What a sequence has seen. A sequence that is not there is IRON_ERROR_OUT_OF_RANGE, here and below. */
IRON_API iron_status iron_session_tokens(iron_session *session, uint32_t sequence, uint32_t *tokens, size_t capacity,
                                         size_t *count);

/* Computes the next tokens of a sequence, so that iron_session_logits has what comes after them. Waits until it is
 * done. IRON_ERROR_CONTEXT_FULL, and IRON_ERROR_OUT_OF_RANGE for a token outside the vocabulary: before anything is
 * computed. The logits of the other sequences are gone. */
IRON_API iron_status iron_session_feed(iron_session *session, uint32_t sequence, const uint32_t *tokens, size_t count);

typedef struct iron_feed {
  const uint32_t *tokens;
  size_t count;
  uint32_t sequence;
  uint32_t reserved[5]; /* 0 */
} iron_feed;
/* The same for several sequences, each at most once, in as few passes as possible: a pass reads the weights once for
 * all of them. */
IRON_API iron_status iron_session_feed_batch(iron_session *session, const iron_feed *work, size_t count);

/* One score for each token of the vocabulary: the higher, the likelier it is next. IRON_ERROR_STATE: the last feed had
 * nothing for this sequence, or it was changed since. Copies; iron_session_write does not. */
IRON_API iron_status iron_session_logits(iron_session *session, uint32_t sequence, float *logits, size_t capacity,
                                         size_t *count);

/* Forgets everything from `position` on; nothing when there is nothing. */
IRON_API iron_status iron_session_rewind(iron_session *session, uint32_t sequence, uint64_t position);
/* Rewinds to where the sequence and `tokens` part, at the last to before the last of `tokens`, so that there is one to
 * feed. `kept`: how many tokens need not be fed again. */
IRON_API iron_status iron_session_keep_prefix(iron_session *session, uint32_t sequence, const uint32_t *tokens,
                                              size_t count, uint64_t *kept);
/* Takes the tokens from `start` to before `end` out. Those behind them are computed again at their new positions.
 * IRON_ERROR_OUT_OF_RANGE: there are none. */
IRON_API iron_status iron_session_forget(iron_session *session, uint32_t sequence, uint64_t start, uint64_t end);
/* Makes sequence `to` what `from` is, but for its logits: feed a token before asking for them. */
IRON_API iron_status iron_session_copy(iron_session *session, uint32_t from, uint32_t to);
/* A sequence's tokens, keys and values as bytes, for a session of the same model and cache type on a machine with the
 * same byte order. Its length depends on what the sequence has seen. */
IRON_API iron_status iron_session_save(iron_session *session, uint32_t sequence, void *bytes, size_t capacity,
                                       size_t *length);
/* Makes a sequence what was saved, but for its logits: rewind by one and feed the last token before asking for them.
 * IRON_ERROR_MODEL: the bytes are of another model or cache type, or damaged; IRON_ERROR_CONTEXT_FULL: there is no
 * room. The sequence is then as it was. Keys and values are used as they come: bytes are as trusted as the program. */
IRON_API iron_status iron_session_restore(iron_session *session, uint32_t sequence, const void *bytes, size_t length);
/* The same with a file, which is replaced when it is complete. IRON_ERROR_FILE. */
IRON_API iron_status iron_session_save_file(iron_session *session, uint32_t sequence, const char *path);
IRON_API iron_status iron_session_restore_file(iron_session *session, uint32_t sequence, const char *path);
IRON_API iron_status iron_session_retain(iron_session *session);
IRON_API iron_status iron_session_release(iron_session *session);

/* ---------------------------------------------------------------------------------- what a model makes of a text -- */

/* Feeds tokens and gives the natural logarithm of each one's probability after all before it, from the second on:
 * `count` - 1 of them. */
IRON_API iron_status iron_session_log_probabilities(iron_session *session, uint32_t sequence, const uint32_t *tokens,
                                                    size_t count, double *logarithms, size_t capacity, size_t *given);

typedef enum iron_pooling {
  IRON_POOLING_MEAN = 0,
  IRON_POOLING_LAST = 1 /* the state of the last token, which has seen all the others */
} iron_pooling;
/* Feeds tokens and pools what the model makes of them into one vector of length 1: as many floats as the `width` of
 * iron_model_info. */
IRON_API iron_status iron_session_embed(iron_session *session, uint32_t sequence, const uint32_t *tokens, size_t count,
                                        uint32_t pooling, float *vector, size_t capacity, size_t *width);

typedef struct iron_perplexity {
  size_t size;
  uint64_t tokens; /* that were predicted */
  double mean_log_probability;
  double value;    /* exp(-mean) */
  double standard_error;
} iron_perplexity;
/* How a text is cut. Figures of different cuts are not comparable. */
typedef enum iron_perplexity_windows {
  IRON_WINDOWS_OVERLAPPING = 0, /* each token but the first is predicted once */
  IRON_WINDOWS_CHUNKS = 1       /* as llama.cpp's llama-perplexity: chunks of a context's length, each on its own; the
                                 * second half of each is predicted, and no token after the last whole chunk */
} iron_perplexity_windows;
typedef struct iron_perplexity_options {
  size_t size;
  uint64_t stride; /* tokens by which the window moves on; 0: half the context; small ones are exact and slow */
  iron_progress_callback progress; /* in tokens; NULL: none */
  void *progress_context;
  uint32_t windows; /* iron_perplexity_windows */
} iron_perplexity_options;
/* How well the model predicts a text that may be longer than the context. Forgets what the sequence has seen. `options`
 * may be NULL. IRON_ERROR_INVALID_ARGUMENT for a text of fewer than two tokens, or without one whole chunk. */
IRON_API iron_status iron_session_perplexity(iron_session *session, uint32_t sequence, const uint32_t *tokens,
                                             size_t count, const iron_perplexity_options *options,
                                             iron_perplexity *perplexity);

/* ------------------------------------------------------------------------------------------------------ samplers -- */

/* How to pick a token, in this order: penalties, top-k, top-p, min-p, temperature, draw. All zero: the likeliest. */
typedef struct iron_sampler_options {
  size_t size;
  float temperature;        /* divides the logits; 0: always the likeliest token */
  uint32_t top_k;           /* draws from this many of the likeliest; 0: all */
  float top_p;              /* of those from the fewest whose probabilities sum to this; 0: 1, all */
  float min_p;              /* of those from the ones this times as likely as the likeliest; 0: all */
  float repetition_penalty; /* 0: 1, none; arXiv:1909.05858, section 4.1 */
  float frequency_penalty;  /* subtracted for each time that the text has the token */
  float presence_penalty;   /* subtracted once if the text has the token */
  uint64_t penalty_window;  /* last tokens that penalties look at; 0: 64; UINT64_MAX: all */
  uint64_t seed;            /* the same seed and options give the same tokens for the same logits */
} iron_sampler_options;

/* Changes the logits of the token that comes after `tokens`, the whole text. -INFINITY bars a token. */
typedef void (*iron_mask_callback)(const uint32_t *tokens, size_t token_count, float *logits, size_t logit_count,
                                   void *context);
/* Picks the token that comes after `tokens`: a sampler of the caller's. A number that is no token fails with
 * IRON_ERROR_OUT_OF_RANGE. */
typedef uint32_t (*iron_sample_callback)(const uint32_t *tokens, size_t token_count, const float *logits,
                                         size_t logit_count, void *context);

/* `options` may be NULL. IRON_ERROR_INVALID_ARGUMENT: one is out of its range. */
IRON_API iron_status iron_sampler_create(const iron_sampler_options *options, iron_sampler **sampler);
/* The next token of the text `tokens`, which the penalties look at; `mask` may be NULL. IRON_ERROR_MODEL: a logit is
 * NaN or infinite, or the mask bars every token. */
IRON_API iron_status iron_sampler_sample(iron_sampler *sampler, const uint32_t *tokens, size_t token_count,
                                         const float *logits, size_t logit_count, iron_mask_callback mask,
                                         void *mask_context, uint32_t *token);
IRON_API iron_status iron_sampler_retain(iron_sampler *sampler);
IRON_API iron_status iron_sampler_release(iron_sampler *sampler);

/* ---------------------------------------------------------------------------------------------------- generation -- */

typedef enum iron_stop {
  IRON_STOP_NONE = 0,        /* it goes on */
  IRON_STOP_END_OF_TEXT = 1, /* the model wrote the token that ends a text */
  IRON_STOP_LIMIT = 2,
  IRON_STOP_STRING = 3,      /* a stop string came; the text ends before it */
  IRON_STOP_CANCELED = 4,
  IRON_STOP_FAILED = 5       /* an error was reported */
} iron_stop;

typedef enum iron_when_full {
  IRON_WHEN_FULL_FAIL = 0,  /* IRON_ERROR_CONTEXT_FULL */
  IRON_WHEN_FULL_FORGET = 1 /* forgets the older half behind the first `keep` tokens, and goes on */
} iron_when_full;

typedef struct iron_generation_options {
  size_t size;
  const iron_sampler_options *sampler; /* NULL: always the likeliest token */
  uint64_t limit;                  /* tokens to write; 0: as many as the context has room for; UINT64_MAX: no limit */
  const char *const *stop_strings; /* each ends with a NUL; copied */
  size_t stop_string_count;
  uint32_t log_probabilities;      /* 1: each piece has its log-probability */
  uint32_t likeliest;              /* and those of the likeliest tokens, this many */
  iron_mask_callback mask;         /* NULL: none; called while the generation or writer is in use */
  void *mask_context;
  iron_sample_callback sample;     /* picks in place of `sampler`, after the mask; NULL: none */
  void *sample_context;
  iron_cancel *cancel;             /* ends it from another thread; NULL: none */
  uint64_t keep;                   /* tokens at the start that IRON_WHEN_FULL_FORGET keeps */
  uint32_t when_full;              /* iron_when_full */
} iron_generation_options;

typedef struct iron_token_probability {
  uint32_t token;
  float log_probability; /* natural, before mask, penalties and temperature */
} iron_token_probability;

/* A token that the model wrote. */
typedef struct iron_piece {
  size_t size;
  uint32_t token;        /* IRON_NO_TOKEN: none, it has ended */
  uint32_t stop;         /* iron_stop; but for IRON_STOP_NONE this is the last one */
  const char *text;      /* what the token completes: whole characters, at times none; a NUL is behind them */
  size_t text_length;
  float log_probability; /* 0 unless it was asked for */
  uint32_t likeliest_count;
  const iron_token_probability *likeliest; /* likeliest first */
} iron_piece;

typedef struct iron_generation_info {
  size_t size;
  uint32_t stop;             /* iron_stop */
  uint64_t prompt_tokens;
  uint64_t prompt_time;      /* nanoseconds from the prompt to the first token */
  uint64_t generated_tokens;
  uint64_t generation_time;  /* nanoseconds from the first token to the last */
} iron_generation_info;

/* Anything but 0 ends the text, as a cancel does. */
typedef uint32_t (*iron_piece_callback)(const iron_piece *piece, void *context);
/* Goes on with `prompt` after what the sequence has seen and calls `write` for each token that the model writes. The
 * session is in use until it returns. `options`, `write` and `info` may be NULL. A text that ends for any reason but an
 * error is IRON_OK, a canceled one, too. The last token written is not in the cache. */
IRON_API iron_status iron_generate(iron_session *session, uint32_t sequence, const uint32_t *prompt,
                                   size_t prompt_count, const iron_generation_options *options,
                                   iron_piece_callback write, void *context, iron_generation_info *info);

/* The same step by step, for iterators: nothing is computed until iron_generation_next. The session is in use during
 * that call only; who changes the sequence meanwhile changes the text. The contexts of `options` are in use until the
 * generation is released. */
IRON_API iron_status iron_generation_create(iron_session *session, uint32_t sequence, const uint32_t *prompt,
                                            size_t prompt_count, const iron_generation_options *options,
                                            iron_generation **generation);
/* The next token. Texts of `piece` are lent until the next call with this generation or its release. After the end each
 * call gives IRON_NO_TOKEN and the reason. */
IRON_API iron_status iron_generation_next(iron_generation *generation, iron_piece *piece);
IRON_API iron_status iron_generation_describe(iron_generation *generation, iron_generation_info *info);
IRON_API iron_status iron_generation_retain(iron_generation *generation);
IRON_API iron_status iron_generation_release(iron_generation *generation);

/* Picks the tokens of one text from logits, for programs that compute many sequences together with
 * iron_session_feed_batch. `tokens`: the text so far, from its begin. `limit` 0 is no limit here; `cancel`, `when_full`
 * and `keep` have no meaning. */
IRON_API iron_status iron_writer_create(iron_model *model, const uint32_t *tokens, size_t count,
                                        const iron_generation_options *options, iron_writer **writer);
/* The next token, from the logits of a sequence. It is for the caller to feed it, unless it was the last. Texts of
 * `piece` are lent until the writer's next call or its release. IRON_ERROR_STATE: it has ended, or there are no
 * logits. */
IRON_API iron_status iron_session_write(iron_session *session, uint32_t sequence, iron_writer *writer,
                                        iron_piece *piece);
/* The same from logits of the caller's. */
IRON_API iron_status iron_writer_write(iron_writer *writer, const float *logits, size_t logit_count,
                                       iron_piece *piece);
/* The whole text: what it went on from and what was written. */
IRON_API iron_status iron_writer_tokens(iron_writer *writer, uint32_t *tokens, size_t capacity, size_t *count);
/* `stop` and `generated_tokens`; the rest is 0. */
IRON_API iron_status iron_writer_describe(iron_writer *writer, iron_generation_info *info);
IRON_API iron_status iron_writer_retain(iron_writer *writer);
IRON_API iron_status iron_writer_release(iron_writer *writer);

/* -------------------------------------------------------------------------------------------------- quantization -- */

/* The name of the type or mix `index` that can be written, static: "Q4_K", "Q4_K_M". IRON_ERROR_OUT_OF_RANGE: past the
 * last. A mix is llama.cpp's: types by the place of a tensor in the model. */
IRON_API iron_status iron_quantize_type(uint32_t index, const char **type);

/* A type for one tensor. */
typedef struct iron_tensor_type {
  const char *tensor; /* "output.weight" */
  const char *type;
  uint32_t reserved[6]; /* 0 */
} iron_tensor_type;
typedef struct iron_quantize_options {
  size_t size;
  const char *type;                /* of matrices, or a mix: "Q4_K", "Q4_K_M"; NULL: Q8_0 */
  const iron_tensor_type *tensors; /* others, for single tensors; the last word counts */
  size_t tensor_count;
  uint32_t threads;                /* 0: one for each processor */
  uint32_t overwrite;              /* 1: a file that is there is replaced; else it is IRON_ERROR_FILE */
  iron_progress_callback progress; /* in bytes of tensors; NULL: none */
  void *progress_context;
  iron_cancel *cancel;             /* NULL: none */
  const char *importance;          /* the path of a file of llama.cpp's llama-imatrix; NULL: none */
} iron_quantize_options;
typedef struct iron_quantize_report {
  size_t size;
  uint64_t tensors;
  uint64_t bytes_before, bytes_after; /* of all tensors */
  uint64_t without_importance;        /* matrices of blocks that options.importance says nothing about */
} iron_quantize_report;
/* Writes the model to a GGUF file at `path` with matrices of another type. The file appears when it is complete; a
 * canceled or failed call leaves nothing. `options` and `report` may be NULL. IRON_ERROR_UNSUPPORTED: the type cannot
 * be written, or a tensor is quantized already; IRON_ERROR_MODEL, IRON_ERROR_SHAPE: the importance matrix is none, or
 * another model's. */
IRON_API iron_status iron_quantize_file(iron_model_file *file, const char *path, const iron_quantize_options *options,
                                        iron_quantize_report *report);
/* Rounds whole blocks of floats to a type. */
IRON_API iron_status iron_quantize(const char *type, const float *numbers, size_t count, void *bytes, size_t capacity,
                                   size_t *length);

#ifdef __cplusplus
}
#endif
#endif
