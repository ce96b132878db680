#include "kernel_table.h"

const IronKernelEntry IronKernelTable[] = {
    {IRON_OPERATION_MATMUL, {IRON_F32, IRON_F32}, "matmul", "matmul_f32_f32"},
    {IRON_OPERATION_MATMUL, {IRON_F16, IRON_F32}, "matmul", "matmul_f16_f32"},
    {IRON_OPERATION_MATMUL, {IRON_BF16, IRON_F32}, "matmul", "matmul_bf16_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q8_0, IRON_F32}, "matmul", "matmul_q8_0_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_0, IRON_F32}, "matmul", "matmul_q4_0_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_1, IRON_F32}, "matmul", "matmul_q4_1_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_0, IRON_F32}, "matmul", "matmul_q5_0_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_1, IRON_F32}, "matmul", "matmul_q5_1_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q2_K, IRON_F32}, "matmul", "matmul_q2_k_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q3_K, IRON_F32}, "matmul", "matmul_q3_k_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_K, IRON_F32}, "matmul", "matmul_q4_k_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_K, IRON_F32}, "matmul", "matmul_q5_k_f32"},
    {IRON_OPERATION_MATMUL, {IRON_Q6_K, IRON_F32}, "matmul", "matmul_q6_k_f32"},
    {IRON_OPERATION_MATMUL, {IRON_IQ4_NL, IRON_F32}, "matmul", "matmul_iq4_nl_f32"},
    {IRON_OPERATION_MATMUL, {IRON_F32, IRON_F16}, "matmul", "matmul_f32_f16"},
    {IRON_OPERATION_MATMUL, {IRON_F16, IRON_F16}, "matmul", "matmul_f16_f16"},
    {IRON_OPERATION_MATMUL, {IRON_BF16, IRON_F16}, "matmul", "matmul_bf16_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q8_0, IRON_F16}, "matmul", "matmul_q8_0_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_0, IRON_F16}, "matmul", "matmul_q4_0_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_1, IRON_F16}, "matmul", "matmul_q4_1_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_0, IRON_F16}, "matmul", "matmul_q5_0_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_1, IRON_F16}, "matmul", "matmul_q5_1_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q2_K, IRON_F16}, "matmul", "matmul_q2_k_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q3_K, IRON_F16}, "matmul", "matmul_q3_k_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q4_K, IRON_F16}, "matmul", "matmul_q4_k_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q5_K, IRON_F16}, "matmul", "matmul_q5_k_f16"},
    {IRON_OPERATION_MATMUL, {IRON_Q6_K, IRON_F16}, "matmul", "matmul_q6_k_f16"},
    {IRON_OPERATION_MATMUL, {IRON_IQ4_NL, IRON_F16}, "matmul", "matmul_iq4_nl_f16"},

    {IRON_OPERATION_EMBEDDING, {IRON_F32}, "embedding", "embedding_f32"},
    {IRON_OPERATION_EMBEDDING, {IRON_F16}, "embedding", "embedding_f16"},
    {IRON_OPERATION_EMBEDDING, {IRON_BF16}, "embedding", "embedding_bf16"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q8_0}, "embedding", "embedding_q8_0"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q4_0}, "embedding", "embedding_q4_0"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q4_1}, "embedding", "embedding_q4_1"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q5_0}, "embedding", "embedding_q5_0"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q5_1}, "embedding", "embedding_q5_1"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q2_K}, "embedding", "embedding_q2_k"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q3_K}, "embedding", "embedding_q3_k"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q4_K}, "embedding", "embedding_q4_k"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q5_K}, "embedding", "embedding_q5_k"},
    {IRON_OPERATION_EMBEDDING, {IRON_Q6_K}, "embedding", "embedding_q6_k"},
    {IRON_OPERATION_EMBEDDING, {IRON_IQ4_NL}, "embedding", "embedding_iq4_nl"},

    {IRON_OPERATION_RMS_NORM, {0}, "rms_norm", "rms_norm"},
    {IRON_OPERATION_ROPE, {0}, "rope", "rope"},

    {IRON_OPERATION_ATTENTION, {IRON_F32}, "attention", "attention_f32"},
    {IRON_OPERATION_ATTENTION, {IRON_F16}, "attention", "attention_f16"},

    {IRON_OPERATION_ADD, {0}, "elementwise", "add"},
    {IRON_OPERATION_SILU_MUL, {0}, "elementwise", "silu_mul"},
    {IRON_OPERATION_SOFTMAX, {0}, "softmax", "softmax"},

    {IRON_OPERATION_COPY, {IRON_F32, IRON_F32}, "copy", "copy_f32_f32"},
    {IRON_OPERATION_COPY, {IRON_F32, IRON_F16}, "copy", "copy_f32_f16"},
    {IRON_OPERATION_COPY, {IRON_F32, IRON_BF16}, "copy", "copy_f32_bf16"},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_F32}, "copy", "copy_f16_f32"},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_F16}, "copy", "copy_f16_f16"},
    {IRON_OPERATION_COPY, {IRON_F16, IRON_BF16}, "copy", "copy_f16_bf16"},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_F32}, "copy", "copy_bf16_f32"},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_F16}, "copy", "copy_bf16_f16"},
    {IRON_OPERATION_COPY, {IRON_BF16, IRON_BF16}, "copy", "copy_bf16_bf16"},
    {IRON_OPERATION_COPY, {IRON_U32, IRON_U32}, "copy", "copy_u32_u32"},

    {IRON_OPERATION_ARGMAX, {0}, "argmax", "argmax"},
};

enum { KERNELS = sizeof IronKernelTable / sizeof *IronKernelTable };
_Static_assert((int)KERNELS <= (int)IRON_KERNELS_AT_MOST, "pipelines.h has room for every kernel");

int IronKernelFind(IronOperation operation, iron_dtype first, iron_dtype second) {
  for (int index = 0; index < KERNELS; index++) {
    const IronKernelEntry *entry = &IronKernelTable[index];
    if (entry->operation == operation && entry->types[0] == first && entry->types[1] == second) return index;
  }
  return -1;
}
