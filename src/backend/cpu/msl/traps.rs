//! What a kernel does that only the processor notices: an access to memory that is not there, a stack that is too
//! small, a division of integers by zero; and a kernel that does not end. All of it reaches the thread as a signal, and
//! ends the threadgroup with an error instead of the process.
//!
//! The handler looks whether a fiber was running a kernel's own code. If so it leaves a note in the Threadgroup, and
//! makes the signal return to where `run_group` waits; the fibers are given up as they are, for they own nothing.
//! Everything else is somebody else's signal and goes to the handler that was there before.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Once, OnceLock};

use super::fiber;
use super::threadgroup::Threadgroup;

/// What interrupts a thread whose threadgroup does not end. Ignored by default, so it does no harm to a thread that it
/// reaches late.
pub const INTERRUPT: c_int = libc::SIGURG;
const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    INTERRUPT,
];

/// Why a threadgroup was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// An access to an address that has no memory.
    Access(usize),
    Arithmetic,
    /// What clang makes of code that it has shown to be undefined.
    Undefined,
    Late,
}

thread_local! {
    /// The Threadgroup whose fibers this thread runs.
    static RUNNING: Cell<*mut Threadgroup> = const { Cell::new(null_mut()) };
    static STACK: Cell<Option<SignalStack>> = const { Cell::new(None) };
}

/// Has signals of the calling thread ascribed to `threadgroup` until this is called with NULL.
pub fn set_running(threadgroup: *mut Threadgroup) {
    RUNNING.set(threadgroup);
}

/// Makes the calling thread ready for kernels: the handlers are there, and have a stack to run on when a fiber's is
/// used up.
pub fn prepare_thread() {
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
    let stack = STACK.take();
    STACK.set(stack.or_else(SignalStack::new));
}

type Action = libc::sigaction;
/// What was there before, by index in SIGNALS.
static BEFORE: OnceLock<[Action; SIGNALS.len()]> = OnceLock::new();

fn install() {
    // SAFETY: an all-zero sigaction is a valid one; the calls get pointers to such.
    unsafe {
        let before = SIGNALS.map(|signal| {
            let mut action: Action = MaybeUninit::zeroed().assume_init();
            libc::sigaction(signal, null_mut(), &raw mut action);
            action
        });
        let _ = BEFORE.set(before);
        let mut ours: Action = MaybeUninit::zeroed().assume_init();
        let handler: Handler = handle;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        for signal in SIGNALS {
            libc::sigaction(signal, &raw const ours, null_mut());
        }
    }
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let threadgroup = RUNNING.get();
    // SAFETY: the system calls this with the signal's information and the interrupted thread's state. A Threadgroup
    // that is set is alive and this thread's own. Nothing here allocates, locks or waits.
    unsafe {
        let stack = registers::stack_pointer(context);
        let trap = match signal {
            libc::SIGFPE => Trap::Arithmetic,
            libc::SIGILL => Trap::Undefined,
            INTERRUPT => Trap::Late,
            _ => Trap::Access((*info).si_addr().addr()),
        };
        if !threadgroup.is_null()
            && let Some(main) = Threadgroup::trap(threadgroup, trap, stack)
        {
            registers::jump(context, main.addr(), fiber::resume as *const () as usize);
            return;
        }
        hand_on(signal, info, context);
    }
}

/// # Safety
/// With what the system gave the handler.
unsafe fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = SIGNALS.iter().position(|known| *known == signal);
    let before = BEFORE
        .get()
        .zip(index)
        .map(|(actions, index)| &actions[index]);
    let Some(before) = before else { return };
    let address = before.sa_sigaction;
    // SAFETY: an address that is none of the two constants is that of a function of the kind that the flags tell.
    unsafe {
        match address {
            libc::SIG_IGN | libc::SIG_DFL if signal == INTERRUPT => {}
            libc::SIG_IGN | libc::SIG_DFL => {
                // The instruction runs again, and now ends the process as it would have without us.
                let mut default: Action = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, null_mut());
            }
            _ if before.sa_flags & libc::SA_SIGINFO != 0 => {
                let function: Handler = std::mem::transmute(address);
                function(signal, info, context);
            }
            _ => {
                let function: unsafe extern "C" fn(c_int) = std::mem::transmute(address);
                function(signal);
            }
        }
    }
}

/// A stack for handlers, on a thread that has none yet.
struct SignalStack {
    memory: *mut c_void,
}

impl SignalStack {
    const SIZE: usize = 64 * 1024;

    /// `None` when the thread has one already; Rust's own threads do.
    fn new() -> Option<SignalStack> {
        // SAFETY: the calls get pointers to structs of theirs, and the mapping is new.
        unsafe {
            let mut stack: libc::stack_t = MaybeUninit::zeroed().assume_init();
            libc::sigaltstack(std::ptr::null(), &raw mut stack);
            if stack.ss_flags & libc::SS_DISABLE == 0 {
                return None;
            }
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON,
            );
            let memory = libc::mmap(null_mut(), Self::SIZE, access, kind, -1, 0);
            if memory == libc::MAP_FAILED {
                return None;
            }
            stack.ss_sp = memory;
            stack.ss_size = Self::SIZE;
            stack.ss_flags = 0;
            libc::sigaltstack(&raw const stack, null_mut());
            Some(SignalStack { memory })
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: the thread ends, and no handler runs on the stack that is taken from it.
        unsafe {
            let mut none: libc::stack_t = MaybeUninit::zeroed().assume_init();
            none.ss_sp = without_provenance_mut(0);
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&raw const none, null_mut());
            libc::munmap(self.memory, Self::SIZE);
        }
    }
}

/// The interrupted thread's registers.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod registers {
    use std::ffi::c_void;

    /// # Safety
    /// `context` is what a handler got.
    pub unsafe fn stack_pointer(context: *mut c_void) -> usize {
        // SAFETY: as said.
        unsafe {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RSP as usize] as usize
        }
    }

    /// # Safety
    /// `context` is what a handler got, and the code at `code` can run with that stack.
    pub unsafe fn jump(context: *mut c_void, stack: usize, code: usize) {
        // SAFETY: as said.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_RSP as usize] = stack as i64;
            registers[libc::REG_RIP as usize] = code as i64;
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
mod registers {
    use std::ffi::c_void;

    /// # Safety
    /// `context` is what a handler got.
    pub unsafe fn stack_pointer(context: *mut c_void) -> usize {
        // SAFETY: as said.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.sp as usize }
    }

    /// # Safety
    /// `context` is what a handler got, and the code at `code` can run with that stack.
    pub unsafe fn jump(context: *mut c_void, stack: usize, code: usize) {
        // SAFETY: as said.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
            registers.sp = stack as u64;
            registers.pc = code as u64;
        }
    }
}

#[cfg(all(target_os = "macos", target_arch = "x86_64"))]
mod registers {
    use std::ffi::c_void;

    /// # Safety
    /// `context` is what a handler got.
    pub unsafe fn stack_pointer(context: *mut c_void) -> usize {
        // SAFETY: as said.
        unsafe {
            (*(*context.cast::<libc::ucontext_t>()).uc_mcontext)
                .__ss
                .__rsp as usize
        }
    }

    /// # Safety
    /// `context` is what a handler got, and the code at `code` can run with that stack.
    pub unsafe fn jump(context: *mut c_void, stack: usize, code: usize) {
        // SAFETY: as said.
        unsafe {
            let registers = &mut (*(*context.cast::<libc::ucontext_t>()).uc_mcontext).__ss;
            registers.__rsp = stack as u64;
            registers.__rip = code as u64;
        }
    }
}

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
mod registers {
    use std::ffi::c_void;

    /// # Safety
    /// `context` is what a handler got.
    pub unsafe fn stack_pointer(context: *mut c_void) -> usize {
        // SAFETY: as said.
        unsafe {
            (*(*context.cast::<libc::ucontext_t>()).uc_mcontext)
                .__ss
                .__sp as usize
        }
    }

    /// # Safety
    /// `context` is what a handler got, and the code at `code` can run with that stack.
    pub unsafe fn jump(context: *mut c_void, stack: usize, code: usize) {
        // SAFETY: as said.
        unsafe {
            let registers = &mut (*(*context.cast::<libc::ucontext_t>()).uc_mcontext).__ss;
            registers.__sp = stack as u64;
            registers.__pc = code as u64;
        }
    }
}
