//! Switching between stacks.
//!
//! A switch saves what the platform's C calling convention says a callee must keep, and nothing else; rounding modes
//! and signal masks are the thread's own and stay. It ends with an indirect jump and not with a return: the processor's
//! predictor of returns would be wrong every time, which costs more than all the rest.

use std::arch::naked_asm;

/// A suspended stack: where its saved registers lie.
pub type Context = *mut u8;

/// Suspends the running stack, leaving where to resume it in `save`, and resumes `to`.
///
/// # Safety
/// `to` must come from [`prepare`] or from a switch away from a stack that has not been resumed since, and that stack
/// must still be mapped. Whoever resumes what is saved here must do so on the same thread.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn switch(save: *mut Context, to: Context) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "pop rax",
        "jmp rax",
    )
}

/// The second half of [`switch`]: resumes the stack whose [`Context`] is the stack pointer. For a signal handler to
/// return to.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn resume() {
    naked_asm!(
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "pop rax", "jmp rax",
    )
}

/// Where a prepared stack begins to run: calls the function in `rbx` with the argument in `rbp`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov rdi, rbp", "xor ebp, ebp", "call rbx", "ud2")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub unsafe extern "C" fn switch(save: *mut Context, to: Context) {
    naked_asm!(
        "sub sp, sp, #160",
        "stp x19, x20, [sp, #0]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov sp, x1",
        "ldp x19, x20, [sp, #0]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "br x30",
    )
}

/// The second half of [`switch`]: resumes the stack whose [`Context`] is the stack pointer. For a signal handler to
/// return to.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub unsafe extern "C" fn resume() {
    naked_asm!(
        "ldp x19, x20, [sp, #0]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "br x30",
    )
}

/// Where a prepared stack begins to run: calls the function in `x19` with the argument in `x20`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov x0, x20", "mov x29, xzr", "blr x19", "brk #1")
}

/// Lays out a stack that ends at `top` such that a switch to the result calls `function(argument)` on it. The function
/// must not return.
///
/// # Safety
/// `top` must be a multiple of 16 with at least 256 writable bytes below it that nothing else uses.
pub unsafe fn prepare(
    top: *mut u8,
    function: unsafe extern "C" fn(*mut u8) -> !,
    argument: *mut u8,
) -> Context {
    // SAFETY: the caller vouches for the bytes below `top`; every word written lies within them.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            // In the order in which `switch` pops them: r15, r14, r13, r12, rbx, rbp, the address. `begin` starts with
            // the stack pointer at a multiple of 16, as the convention wants it before a call.
            let words = top.cast::<usize>().sub(9);
            for word in 0..9 {
                words.add(word).write(0);
            }
            words.add(4).write(function as usize);
            words.add(5).write(argument as usize);
            words.add(6).write(begin as *const () as usize);
            words.cast()
        }
        #[cfg(target_arch = "aarch64")]
        {
            let words = top.cast::<usize>().sub(20);
            for word in 0..20 {
                words.add(word).write(0);
            }
            words.write(function as usize);
            words.add(1).write(argument as usize);
            words.add(11).write(begin as *const () as usize);
            words.cast()
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "threads of a threadgroup are fibers, and their switch is written for x86-64 and aarch64 only"
);

#[cfg(test)]
mod tests {
    use super::*;

    struct PingPong {
        main: Context,
        fiber: Context,
        seen: Vec<u64>,
    }

    #[repr(align(16))]
    struct Aligned([u8; 16]);

    unsafe extern "C" fn count(argument: *mut u8) -> ! {
        let shared = argument.cast::<PingPong>();
        // Compiled code relies on the convention's alignment of the stack and faults without it.
        let aligned = std::hint::black_box(Aligned([1; 16]));
        assert_eq!(aligned.0[0], 1);
        assert_eq!((&raw const aligned).addr() % 16, 0);
        // Floating-point state in callee-saved registers must survive the switches as well.
        let mut value = 0.5f64;
        loop {
            // SAFETY: `shared` is the test's own and outlives the fiber; main is suspended while this runs.
            unsafe {
                (*shared).seen.push((value * 2.0) as u64);
                value += 1.0;
                switch(&raw mut (*shared).fiber, (*shared).main);
            }
        }
    }

    #[test]
    fn a_fiber_keeps_its_state_between_switches() {
        let mut stack = vec![0u128; 4096];
        let top = stack.as_mut_ptr_range().end.cast::<u8>();
        let mut shared = PingPong {
            main: std::ptr::null_mut(),
            fiber: std::ptr::null_mut(),
            seen: Vec::new(),
        };
        let shared = &raw mut shared;
        // SAFETY: the stack is 64 KiB of this test's own memory, and `count` needs far less.
        unsafe {
            (*shared).fiber = prepare(top, count, shared.cast());
            for _ in 0..5 {
                switch(&raw mut (*shared).main, (*shared).fiber);
            }
            assert_eq!((*shared).seen, [1, 3, 5, 7, 9]);
        }
    }
}
