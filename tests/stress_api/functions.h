/* Every function of every header in include/, once. `stress-api --functions` prints the list; tests/c_abi/stress_api.rs
 * compares it with the headers, so that a new function cannot be forgotten. */
#ifndef STRESS_FUNCTIONS_H
#define STRESS_FUNCTIONS_H

#define FUNCTIONS(X)               \
  X(iron_abi_version)              \
  X(iron_version)                  \
  X(iron_status_name)              \
  X(iron_last_error)               \
  X(iron_device_count)             \
  X(iron_device_describe_index)    \
  X(iron_device_open)              \
  X(iron_device_describe)          \
  X(iron_device_sync)              \
  X(iron_device_close)             \
  X(iron_compute_threads)          \
  X(iron_compute_set_threads)      \
  X(iron_compute_pin)              \
  X(iron_device_retain)            \
  X(iron_device_release)           \
  X(iron_source)                   \
  X(iron_buffer_create)            \
  X(iron_buffer_create_with_bytes) \
  X(iron_buffer_wrap)              \
  X(iron_buffer_retain)            \
  X(iron_buffer_release)           \
  X(iron_buffer_length)            \
  X(iron_buffer_label)             \
  X(iron_buffer_set_label)         \
  X(iron_buffer_read)              \
  X(iron_buffer_write)             \
  X(iron_buffer_map)               \
  X(iron_buffer_unmap)             \
  X(iron_buffer_contents)          \
  X(iron_weights_write)            \
  X(iron_weights_read)             \
  X(iron_commands_begin)           \
  X(iron_commands_flush)           \
  X(iron_commands_commit)          \
  X(iron_commands_wait)            \
  X(iron_commands_run)             \
  X(iron_commands_describe)        \
  X(iron_commands_retain)          \
  X(iron_commands_release)         \
  X(iron_encode_matmul)            \
  X(iron_encode_embedding)         \
  X(iron_encode_rms_norm)          \
  X(iron_encode_rope)              \
  X(iron_encode_attention)         \
  X(iron_encode_add)               \
  X(iron_encode_silu_mul)          \
  X(iron_encode_gelu_mul)          \
  X(iron_encode_relu)              \
  X(iron_encode_sigmoid)           \
  X(iron_encode_tanh)              \
  X(iron_encode_add_bias)          \
  X(iron_encode_transpose)         \
  X(iron_encode_softmax)           \
  X(iron_encode_argmax)            \
  X(iron_encode_copy)              \
  X(iron_encode_copy_bytes)        \
  X(iron_encode_fill)              \
  X(iron_library_create)           \
  X(iron_library_retain)           \
  X(iron_library_release)          \
  X(iron_kernel_create)            \
  X(iron_kernel_describe)          \
  X(iron_kernel_retain)            \
  X(iron_kernel_release)           \
  X(iron_encode_kernel)            \
  X(iron_memory_describe)          \
  X(iron_memory_reset)             \
  X(iron_memory_configure)         \
  X(iron_memory_configuration)     \
  X(iron_memory_reclaim)           \
  X(iron_memory_list)              \
  X(iron_leak_hook)                \
  X(iron_trace_hook)               \
  X(iron_diagnose)                 \
  X(iron_live_objects)

typedef enum Function {
#define X(name) FUNCTION_##name,
  FUNCTIONS(X)
#undef X
  FUNCTION_COUNT
} Function;

#endif
