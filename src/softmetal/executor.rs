//! The C table that the device calls, and nothing but the crossing of that border: pointers become references, panics and
//! errors become outcomes.

use std::arch::global_asm;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::{ptr, slice};

use super::bindings::executor::*;
use super::compute_pool;
use super::dispatch::{Dispatch, Fault};
use super::kernels::Machine;
use super::library::{Code, Function, KernelChoice, Library};

// `softmetal_cpu_executor` of executor.h. rustc exports every `#[no_mangle]` function from a cdylib, whose symbols are the C ABI and nothing
// else, so the symbol is defined by hand, hidden.
#[cfg(all(target_arch = "x86_64", not(target_vendor = "apple")))]
global_asm!(
    ".pushsection .text.softmetal_cpu_executor,\"ax\",@progbits",
    ".globl softmetal_cpu_executor",
    ".hidden softmetal_cpu_executor",
    ".type softmetal_cpu_executor,@function",
    "softmetal_cpu_executor:",
    "jmp {cpu_executor}@PLT",
    ".size softmetal_cpu_executor, . - softmetal_cpu_executor",
    ".popsection",
    cpu_executor = sym cpu_executor,
);
#[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
global_asm!(
    ".pushsection .text.softmetal_cpu_executor,\"ax\",@progbits",
    ".p2align 2",
    ".globl softmetal_cpu_executor",
    ".hidden softmetal_cpu_executor",
    ".type softmetal_cpu_executor,@function",
    "softmetal_cpu_executor:",
    "b {cpu_executor}",
    ".size softmetal_cpu_executor, . - softmetal_cpu_executor",
    ".popsection",
    cpu_executor = sym cpu_executor,
);
#[cfg(all(target_arch = "x86_64", target_vendor = "apple"))]
global_asm!(
    ".text",
    ".globl _softmetal_cpu_executor",
    ".private_extern _softmetal_cpu_executor",
    "_softmetal_cpu_executor:",
    "jmp {cpu_executor}",
    cpu_executor = sym cpu_executor,
);
#[cfg(all(target_arch = "aarch64", target_vendor = "apple"))]
global_asm!(
    ".text",
    ".p2align 2",
    ".globl _softmetal_cpu_executor",
    ".private_extern _softmetal_cpu_executor",
    "_softmetal_cpu_executor:",
    "b {cpu_executor}",
    cpu_executor = sym cpu_executor,
);

/// Only the native archive refers to the symbol, and a linker that reads archives in order has passed this object by then. rustc makes
/// every link refer to `#[used]` statics, which brings the object in.
#[used]
static KEEP: extern "C" fn() -> *const soft_executor = cpu_executor;

struct Table(soft_executor);

// SAFETY: written once before it is shared, and `name` points to a string that is never freed.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// What the executor computes with: the process's one machine, or what is wrong with the environment's wishes for it.
fn machine() -> &'static Result<Machine, String> {
    static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();
    MACHINE.get_or_init(|| compute_pool::configured_threads().map(Machine::new))
}

extern "C" fn cpu_executor() -> *const soft_executor {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = catch_unwind(|| {
        TABLE.get_or_init(|| {
            let threads = machine()
                .as_ref()
                .map_or(1, |machine| machine.pool.threads());
            let plural = if threads == 1 { "" } else { "s" };
            let name = format!("{} ({threads} thread{plural})", processor_name());
            Table(soft_executor {
                name: into_c_string(name),
                threads: threads as u32,
                compiles_source: false,
                library_create: Some(library_create),
                library_release: Some(library_release),
                library_function_name: Some(library_function_name),
                function_create: Some(function_create),
                function_release: Some(function_release),
                function_describe: Some(function_describe),
                execute: Some(execute),
                string_release: Some(string_release),
            })
        })
    });
    table.map_or(ptr::null(), |table| &raw const table.0)
}

unsafe extern "C" fn library_create(
    source: *const c_char,
    length: usize,
    error: *mut *mut c_char,
) -> *mut soft_library {
    let compile = || {
        machine().as_ref().map_err(String::clone)?;
        if source.is_null() {
            return Err(String::from("the source is NULL"));
        }
        // SAFETY: executor.h: `source` has `length` bytes.
        let source = unsafe { slice::from_raw_parts(source.cast(), length) };
        Library::compile(source, KernelChoice::from_environment()?)
    };
    match guarded(compile) {
        Ok(library) => Arc::into_raw(Arc::new(library)).cast_mut().cast(),
        Err(text) => {
            // SAFETY: executor.h: `error` is NULL or a place for a pointer.
            unsafe { report(error, text) };
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn library_release(library: *mut soft_library) {
    if !library.is_null() {
        // SAFETY: made by `library_create` and released once. Dropping it runs no code that panics.
        drop(unsafe { Arc::from_raw(library.cast::<Library>()) });
    }
}

unsafe extern "C" fn library_function_name(
    library: *const soft_library,
    index: usize,
) -> *const c_char {
    // SAFETY: NULL or made by `library_create` and not released.
    let library = unsafe { library.cast::<Library>().as_ref() };
    library
        .and_then(|library| library.function_name(index))
        .map_or(ptr::null(), CStr::as_ptr)
}

unsafe extern "C" fn function_create(
    library: *mut soft_library,
    name: *const c_char,
    _constants: *const soft_constant, // the native kernels have none, and Metal ignores a value that no kernel asks for
    _constant_count: usize,
    error: *mut *mut c_char,
) -> *mut soft_function {
    let create = || {
        if library.is_null() || name.is_null() {
            return Err(String::from("the library or the kernel's name is NULL"));
        }
        let library = library.cast::<Library>().cast_const();
        // SAFETY: made by `library_create` and not released; the count goes up for the Arc made here.
        let library = unsafe {
            Arc::increment_strong_count(library);
            Arc::from_raw(library)
        };
        // SAFETY: executor.h: NUL-terminated.
        library.function(unsafe { CStr::from_ptr(name) })
    };
    match guarded(create) {
        Ok(function) => Box::into_raw(Box::new(function)).cast(),
        Err(text) => {
            // SAFETY: executor.h: `error` is NULL or a place for a pointer.
            unsafe { report(error, text) };
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn function_release(function: *mut soft_function) {
    if !function.is_null() {
        // SAFETY: made by `function_create` and released once.
        drop(unsafe { Box::from_raw(function.cast::<Function>()) });
    }
}

unsafe extern "C" fn function_describe(
    _function: *const soft_function,
    info: *mut soft_function_info,
) {
    if info.is_null() {
        return;
    }
    let description = soft_function_info {
        max_total_threads_per_threadgroup: 1024,
        thread_execution_width: 32,
        static_threadgroup_memory: 0,
    };
    // SAFETY: executor.h: not NULL is a place for the description.
    unsafe { info.write(description) }
}

unsafe extern "C" fn execute(
    function: *const soft_function,
    dispatch: *const soft_dispatch,
    error: *mut *mut c_char,
) -> soft_outcome {
    let run = || {
        // SAFETY: NULL or made by `function_create` and not released.
        let function = unsafe { function.cast::<Function>().as_ref() };
        // SAFETY: NULL or one dispatch.
        let dispatch = unsafe { dispatch.as_ref() };
        let (Some(function), Some(dispatch)) = (function, dispatch) else {
            return Err(Fault::Invalid(String::from(
                "the function or the dispatch is NULL",
            )));
        };
        let machine = machine()
            .as_ref()
            .map_err(|text| Fault::Invalid(text.clone()))?;
        let Code::Native(kernel) = function.code;
        // SAFETY: the device binds buffers that the command buffer keeps alive, and Metal's rules forbid concurrent access.
        let dispatch = unsafe { Dispatch::new(kernel.display_name(), dispatch) };
        (kernel.run)(&dispatch, machine)
    };
    let (outcome, text) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return SOFT_OK,
        Ok(Err(Fault::OutOfBounds(text))) => (SOFT_PAGE_FAULT, text),
        Ok(Err(Fault::Invalid(text))) => (SOFT_INVALID, text),
        Ok(Err(Fault::OutOfMemory(text))) => (SOFT_OUT_OF_MEMORY, text),
        Err(payload) => (SOFT_INTERNAL, panic_text(&*payload)),
    };
    // SAFETY: executor.h: `error` is NULL or a place for a pointer.
    unsafe { report(error, text) };
    outcome
}

unsafe extern "C" fn string_release(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: made by `into_c_string` and released once.
        drop(unsafe { CString::from_raw(string) });
    }
}

/// Runs `body` and turns a panic into an error.
fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panic_text(&*payload)))
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    format!(
        "a bug in the software device: {}",
        text.unwrap_or("a panic without a message")
    )
}

/// # Safety
/// `error` is NULL or a place for a pointer.
unsafe fn report(error: *mut *mut c_char, text: String) {
    if !error.is_null() {
        // SAFETY: the caller's promise.
        unsafe { error.write(into_c_string(text)) }
    }
}

fn into_c_string(text: String) -> *mut c_char {
    let mut bytes = text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).unwrap_or_default().into_raw()
}

/// What the processor calls itself.
#[cfg(target_os = "macos")]
fn processor_name() -> String {
    let mut text = [0u8; 256];
    let mut length = text.len();
    // SAFETY: a NUL-terminated name and a buffer of `length` bytes; nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"machdep.cpu.brand_string".as_ptr(),
            text.as_mut_ptr().cast(),
            &mut length,
            ptr::null_mut(),
            0,
        )
    };
    CStr::from_bytes_until_nul(&text)
        .ok()
        .filter(|name| status == 0 && !name.is_empty())
        .map_or_else(
            || String::from(std::env::consts::ARCH),
            |name| name.to_string_lossy().into_owned(),
        )
}

/// What the processor calls itself. An ARM Linux does not say: then the architecture.
#[cfg(not(target_os = "macos"))]
fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map(|(_, name)| name.trim());
    String::from(name.unwrap_or(std::env::consts::ARCH))
}
