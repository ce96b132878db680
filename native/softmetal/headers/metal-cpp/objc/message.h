/* objc_msgSend for GCC's Objective-C runtime, which has objc_msg_lookup instead. Who calls it sees neither: the method
 * is looked up, and run with the arguments as they came. Weak and hidden, so that each program has one of its own, and
 * none reaches a library. */
#ifndef SOFTMETAL_OBJC_MESSAGE_H
#define SOFTMETAL_OBJC_MESSAGE_H

#include_next <objc/message.h>

#ifdef __cplusplus
extern "C" {
#endif
/* To be cast to the method's type, with the receiver and the selector in front. */
void objc_msgSend(void);
#if defined(__x86_64__)
void objc_msgSend_fpret(void); /* returns a long double */
void objc_msgSend_stret(void); /* returns a struct of more than 16 bytes */
#endif
#ifdef __cplusplus
}
#endif

#define SOFTMETAL_BEGIN(name) \
  ".text\n.weak " name "\n.hidden " name "\n.type " name ", %function\n" name ":\n.cfi_startproc\n"
#define SOFTMETAL_END(name) ".cfi_endproc\n.size " name ", . - " name "\n"

#if defined(__x86_64__)
/* All registers that may have arguments; al counts vectors of a call with `...`. */
#define SOFTMETAL_SEND(name, receiver, selector)                                                         \
  __asm__(SOFTMETAL_BEGIN(name)                                                                          \
          "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"                                   \
          "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\nsub $192, %rsp\n"                                 \
          "mov %rdi, -8(%rbp)\nmov %rsi, -16(%rbp)\nmov %rdx, -24(%rbp)\nmov %rcx, -32(%rbp)\n"          \
          "mov %r8, -40(%rbp)\nmov %r9, -48(%rbp)\nmov %rax, -56(%rbp)\n"                                \
          "movaps %xmm0, -80(%rbp)\nmovaps %xmm1, -96(%rbp)\nmovaps %xmm2, -112(%rbp)\n"                 \
          "movaps %xmm3, -128(%rbp)\nmovaps %xmm4, -144(%rbp)\nmovaps %xmm5, -160(%rbp)\n"               \
          "movaps %xmm6, -176(%rbp)\nmovaps %xmm7, -192(%rbp)\n"                                         \
          "mov " receiver ", %rdi\nmov " selector ", %rsi\ncall objc_msg_lookup@PLT\nmov %rax, %r11\n"   \
          "mov -8(%rbp), %rdi\nmov -16(%rbp), %rsi\nmov -24(%rbp), %rdx\nmov -32(%rbp), %rcx\n"          \
          "mov -40(%rbp), %r8\nmov -48(%rbp), %r9\nmov -56(%rbp), %rax\n"                                \
          "movaps -80(%rbp), %xmm0\nmovaps -96(%rbp), %xmm1\nmovaps -112(%rbp), %xmm2\n"                 \
          "movaps -128(%rbp), %xmm3\nmovaps -144(%rbp), %xmm4\nmovaps -160(%rbp), %xmm5\n"               \
          "movaps -176(%rbp), %xmm6\nmovaps -192(%rbp), %xmm7\n"                                         \
          "leave\n.cfi_def_cfa %rsp, 8\njmp *%r11\n" SOFTMETAL_END(name))
SOFTMETAL_SEND("objc_msgSend", "-8(%rbp)", "-16(%rbp)");
SOFTMETAL_SEND("objc_msgSend_fpret", "-8(%rbp)", "-16(%rbp)");
/* The struct's place comes first. */
SOFTMETAL_SEND("objc_msgSend_stret", "-16(%rbp)", "-24(%rbp)");
#undef SOFTMETAL_SEND
#elif defined(__aarch64__)
__asm__(SOFTMETAL_BEGIN("objc_msgSend")
        "stp x29, x30, [sp, #-224]!\n.cfi_def_cfa_offset 224\n.cfi_offset x29, -224\n.cfi_offset x30, -216\n"
        "mov x29, sp\n"
        "stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\nstp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n"
        "str x8, [sp, #80]\n"
        "stp q0, q1, [sp, #96]\nstp q2, q3, [sp, #128]\nstp q4, q5, [sp, #160]\nstp q6, q7, [sp, #192]\n"
        "bl objc_msg_lookup\nmov x16, x0\n"
        "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n"
        "ldr x8, [sp, #80]\n"
        "ldp q0, q1, [sp, #96]\nldp q2, q3, [sp, #128]\nldp q4, q5, [sp, #160]\nldp q6, q7, [sp, #192]\n"
        "ldp x29, x30, [sp], #224\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n"
        "br x16\n" SOFTMETAL_END("objc_msgSend"));
#else
#error "objc_msgSend is not there for this processor"
#endif
#undef SOFTMETAL_BEGIN
#undef SOFTMETAL_END

#endif
