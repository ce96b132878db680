/* Where the fields of the header's structs lie that start with their size: a size that ends inside one is no older
 * header's. */
#ifndef IRON_BRIDGE_LAYOUT_H
#define IRON_BRIDGE_LAYOUT_H

#include "ironbridge_llama.h"
#include "ironbridge_memory.h"

typedef struct IronField {
  const char *name;
  size_t start, end;
} IronField;

typedef struct IronLayout {
  const char *name;
  size_t length; /* of the whole struct */
  const IronField *fields; /* in order */
  size_t count;
} IronLayout;

/* Those that callers hand in. */
#define IRON_LAYOUTS(DO)         \
  DO(iron_device_info)           \
  DO(iron_device_options)        \
  DO(iron_buffer_options)        \
  DO(iron_weights)               \
  DO(iron_commands_info)         \
  DO(iron_commands_options)      \
  DO(iron_submission)            \
  DO(iron_matmul)                \
  DO(iron_embedding)             \
  DO(iron_rms_norm)              \
  DO(iron_rope)                  \
  DO(iron_attention)             \
  DO(iron_elementwise)           \
  DO(iron_activation)            \
  DO(iron_add_bias)              \
  DO(iron_transpose)             \
  DO(iron_softmax)               \
  DO(iron_argmax)                \
  DO(iron_copy)                  \
  DO(iron_linear_backward)       \
  DO(iron_gated)                 \
  DO(iron_rms_norm_backward)     \
  DO(iron_softmax_backward)      \
  DO(iron_embedding_backward)    \
  DO(iron_attention_backward)    \
  DO(iron_sum_rows)              \
  DO(iron_sum_squares)           \
  DO(iron_clip_norm)             \
  DO(iron_mse)                   \
  DO(iron_cross_entropy)         \
  DO(iron_sgd)                   \
  DO(iron_adam)                  \
  DO(iron_dispatch)              \
  DO(iron_library_options)       \
  DO(iron_kernel_info)           \
  DO(iron_kernel_argument_info)  \
  DO(iron_memory_info)           \
  DO(iron_memory_settings)       \
  DO(iron_reclaimed)             \
  DO(iron_leaks)                 \
  DO(iron_diagnostics)           \
  DO(iron_model_file_info)       \
  DO(iron_load_options)          \
  DO(iron_model_info)            \
  DO(iron_layer_info)            \
  DO(iron_tokenizer_info)        \
  DO(iron_chat_options)          \
  DO(iron_session_options)       \
  DO(iron_session_info)          \
  DO(iron_perplexity)            \
  DO(iron_perplexity_options)    \
  DO(iron_sampler_options)       \
  DO(iron_generation_options)    \
  DO(iron_piece)                 \
  DO(iron_generation_info)       \
  DO(iron_quantize_options)      \
  DO(iron_quantize_report)

#define IRON_DECLARE_LAYOUT(type) extern const IronLayout IronLayout_##type;
IRON_LAYOUTS(IRON_DECLARE_LAYOUT)
#undef IRON_DECLARE_LAYOUT

struct IronNoLayout; /* never made: the list needs a last one without a comma */
#define IRON_LAYOUT_CASE(type) type : &IronLayout_##type,
/* The layout of a value's type; other types do not compile. */
#define IRON_LAYOUT_OF(value) _Generic((value), IRON_LAYOUTS(IRON_LAYOUT_CASE) struct IronNoLayout * : NULL)

#endif
