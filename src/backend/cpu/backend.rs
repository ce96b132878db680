//! The C table that the device calls, and nothing but the crossing of that border: pointers become references, panics
//! and errors become outcomes.

use std::arch::global_asm;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::{ptr, slice};

use super::bindings::Dispatch;
use super::deadline;
use super::library::{Code, Function, KernelChoice, Library};
use super::machine::Machine;
use super::msl::watchdog;
use super::threads::{affinity, thread_pool};
use crate::backend::cpu::threads::affinity::PinError;
use crate::backend::fault::Fault;
use crate::backend::ffi::executor::*;
use crate::msl::{self, Setting};

// `softmetal_cpu_executor` of executor.h. rustc exports every `#[no_mangle]` function from a cdylib, whose symbols are
// the C ABI and nothing else, so the symbol is defined by hand, hidden.
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

/// Only the native archive refers to the symbol, and a linker that reads archives in order has passed this object by
/// then. rustc makes every link refer to `#[used]` statics, which brings the object in.
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
    MACHINE.get_or_init(|| {
        let mut machine = thread_pool::configured_threads().map(Machine::new)?;
        machine.deadline = watchdog::DISPATCH.of_environment()?;
        if let Some(places) = affinity::configured()? {
            machine.pool.pin(&places).map_err(PinError::text)?;
        }
        Ok(machine)
    })
}

/// The machine, for who has no place for what is wrong with it.
fn working_machine() -> Option<&'static Machine> {
    catch_unwind(machine)
        .ok()
        .and_then(|machine| machine.as_ref().ok())
}

extern "C" fn cpu_executor() -> *const soft_executor {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = catch_unwind(|| {
        TABLE.get_or_init(|| {
            Table(soft_executor {
                name: into_c_string(processor_name()),
                compiles_source: Some(compiles_source),
                library_create: Some(library_create),
                library_release: Some(library_release),
                library_function_name: Some(library_function_name),
                function_create: Some(function_create),
                function_release: Some(function_release),
                function_describe: Some(function_describe),
                execute: Some(execute),
                adopt_thread: Some(adopt_thread),
                takes_guests: Some(takes_guests),
                threads: Some(threads),
                set_threads: Some(set_threads),
                pin_threads: Some(pin_threads),
                patience: Some(patience),
                string_release: Some(string_release),
            })
        })
    });
    table.map_or(ptr::null(), |table| &raw const table.0)
}

unsafe extern "C" fn compiles_source() -> bool {
    catch_unwind(msl::has_compiler).unwrap_or(false)
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
    constants: *const soft_constant,
    constant_count: usize,
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
        let constants = match constants.is_null() {
            true => &[],
            // SAFETY: executor.h: `constant_count` entries.
            false => unsafe { slice::from_raw_parts(constants, constant_count) },
        };
        let settings: Vec<Setting> = constants.iter().map(setting).collect();
        // SAFETY: executor.h: NUL-terminated.
        library.function(unsafe { CStr::from_ptr(name) }, &settings)
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

/// A function constant as the device hands it over.
fn setting(constant: &soft_constant) -> Setting<'_> {
    let name = match constant.name.is_null() {
        true => None,
        // SAFETY: executor.h: NUL-terminated when not NULL, as long as the array that it is in.
        false => unsafe { CStr::from_ptr(constant.name) }.to_str().ok(),
    };
    Setting {
        name,
        index: constant.index,
        data_type: constant.type_,
        bytes: constant.value,
    }
}

unsafe extern "C" fn function_release(function: *mut soft_function) {
    if !function.is_null() {
        // SAFETY: made by `function_create` and released once.
        drop(unsafe { Box::from_raw(function.cast::<Function>()) });
    }
}

unsafe extern "C" fn function_describe(
    function: *const soft_function,
    info: *mut soft_function_info,
) {
    if info.is_null() {
        return;
    }
    // SAFETY: NULL or made by `function_create` and not released.
    let function = unsafe { function.cast::<Function>().as_ref() };
    let (max_total_threads_per_threadgroup, static_threadgroup_memory) =
        match function.map(|function| &function.code) {
            Some(Code::Msl(function)) => (function.max_total_threads(), function.variable_bytes()),
            _ => (1024, 0),
        };
    let description = soft_function_info {
        max_total_threads_per_threadgroup,
        thread_execution_width: 32,
        static_threadgroup_memory,
        // A kernel of the caller's own needs signals, which a thread that is not ours may block.
        any_thread: function.is_some_and(|function| matches!(function.code, Code::Native(_))),
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
        machine.pool.place_caller();
        match &function.code {
            Code::Native(kernel) => {
                // SAFETY: the device binds buffers that the command buffer keeps alive, and Metal's rules forbid
                // concurrent access.
                let dispatch =
                    unsafe { Dispatch::new(kernel.display_name(), kernel.geometry, dispatch) };
                deadline::run(machine.deadline, || (kernel.run)(&dispatch, machine))
            }
            // SAFETY: as above; that a kernel of the caller's own is sound is for the caller to know, as on any device.
            Code::Msl(function) => unsafe { execute_msl(function, dispatch, machine) },
        }
    };
    let (outcome, text) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return SOFT_OK,
        Ok(Err(Fault::OutOfBounds(text))) => (SOFT_PAGE_FAULT, text),
        Ok(Err(Fault::Invalid(text))) => (SOFT_INVALID, text),
        Ok(Err(Fault::OutOfMemory(text))) => (SOFT_OUT_OF_MEMORY, text),
        Ok(Err(Fault::StackOverflow(text))) => (SOFT_STACK_OVERFLOW, text),
        Ok(Err(Fault::Timeout(text))) => (SOFT_TIMEOUT, text),
        Ok(Err(Fault::Unsupported(text))) => (SOFT_UNSUPPORTED, text),
        Ok(Err(Fault::DeviceLost(text) | Fault::Internal(text))) => (SOFT_INTERNAL, text),
        Err(payload) => (SOFT_INTERNAL, panic_text(&*payload)),
    };
    // SAFETY: executor.h: `error` is NULL or a place for a pointer.
    unsafe { report(error, text) };
    outcome
}

extern "C" fn adopt_thread() {
    thread_pool::adopt_this_thread();
}

extern "C" fn takes_guests() -> bool {
    working_machine().is_some_and(Machine::accepts_foreign_threads)
}

extern "C" fn threads() -> u32 {
    working_machine().map_or(1, |machine| machine.pool.threads() as u32)
}

unsafe extern "C" fn set_threads(threads: u32, error: *mut *mut c_char) -> soft_outcome {
    let change = |machine: &Machine| {
        if !(1..=thread_pool::MAX_THREADS).contains(&(threads as usize)) {
            let most = thread_pool::MAX_THREADS;
            return Err((SOFT_INVALID, format!("{threads} is not from 1 to {most}")));
        }
        match machine.pool.set_threads(threads as usize) {
            given if given == threads as usize => Ok(()),
            given => Err((
                SOFT_OUT_OF_MEMORY,
                format!("the system gave {given} of {threads} threads"),
            )),
        }
    };
    // SAFETY: executor.h: `error` is NULL or a place for a pointer.
    unsafe { changed(change, error) }
}

unsafe extern "C" fn pin_threads(
    processors: *const u32,
    count: usize,
    error: *mut *mut c_char,
) -> soft_outcome {
    let change = |machine: &Machine| {
        let processors = match processors.is_null() {
            true => &[],
            // SAFETY: executor.h: `count` numbers.
            false => unsafe { slice::from_raw_parts(processors, count) },
        };
        let places: Vec<usize> = processors.iter().map(|place| *place as usize).collect();
        machine.pool.pin(&places).map_err(|error| match error {
            PinError::Unknown(text) => (SOFT_INVALID, text),
            PinError::Unsupported(text) => (SOFT_UNSUPPORTED, text),
        })
    };
    // SAFETY: executor.h: `error` is NULL or a place for a pointer.
    unsafe { changed(change, error) }
}

extern "C" fn patience() -> u64 {
    working_machine().map_or(0, |machine| machine.pool.spin_budget().as_nanos() as u64)
}

/// The outcome of a change of the machine.
///
/// # Safety
/// `error` is NULL or a place for a pointer.
unsafe fn changed(
    change: impl FnOnce(&Machine) -> Result<(), (soft_outcome, String)>,
    error: *mut *mut c_char,
) -> soft_outcome {
    let run = || match machine() {
        Ok(machine) => change(machine),
        Err(text) => Err((SOFT_INVALID, text.clone())),
    };
    let (outcome, text) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return SOFT_OK,
        Ok(Err(refused)) => refused,
        Err(payload) => (SOFT_INTERNAL, panic_text(&*payload)),
    };
    // SAFETY: the caller's promise.
    unsafe { report(error, text) };
    outcome
}

/// # Safety
/// What `msl::Function::dispatch` asks for.
unsafe fn execute_msl(
    function: &crate::backend::cpu::msl::function::Function,
    dispatch: &soft_dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    let dispatch = crate::backend::cpu::msl::dispatch::Dispatch {
        bindings: dispatch
            .bindings
            .map(|binding| crate::backend::cpu::msl::abi::Range {
                pointer: binding.pointer.cast(),
                length: binding.length,
            }),
        threadgroup_memory: dispatch.threadgroup_memory,
        grid: dispatch.grid,
        threadgroup: dispatch.threadgroup,
        threads: dispatch.threads,
        order: crate::backend::cpu::msl::lane_order::LaneOrder::from_environment()
            .map_err(Fault::Invalid)?,
        limit: watchdog::THREADGROUP
            .of_environment()
            .map_err(Fault::Invalid)?,
        deadline: machine.deadline,
        workers: machine.pool.threads(),
        parallel: &|chunks, body| machine.pool.parallel_for(chunks, body),
    };
    // SAFETY: the caller's promise.
    unsafe { function.dispatch(&dispatch) }.map_err(Fault::from)
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

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::backend::ffi::args::*;

    fn table() -> &'static soft_executor {
        // SAFETY: the table lives as long as the process.
        unsafe { cpu_executor().as_ref() }.expect("the executor is there")
    }

    /// Takes the text of an error.
    fn take(error: *mut c_char) -> String {
        assert!(!error.is_null(), "an error has a text");
        // SAFETY: made by `report`, released here.
        unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            string_release(error);
            text
        }
    }

    /// The library of a source of ours.
    fn own_library(family: &str) -> *mut soft_library {
        let source = crate::msl::builtin::own_sources()
            .find(|own| own.family == family)
            .expect("a family of ours");
        let mut error = ptr::null_mut();
        let (text, length) = (source.text.as_ptr().cast(), source.text.len());
        // SAFETY: `length` bytes and a place for an error.
        let library = unsafe { library_create(text, length, &mut error) };
        assert!(!library.is_null(), "{}", take(error));
        library
    }

    #[test]
    fn it_says_what_it_is() {
        // SAFETY: a string that is never freed.
        let name = unsafe { CStr::from_ptr(table().name) };
        assert!(!name.to_str().expect("UTF-8").is_empty());
    }

    #[test]
    fn a_kernel_runs_after_its_library_is_released() {
        let library = own_library("elementwise");
        // SAFETY: live handles, released once; bindings of local memory; a NULL error is allowed.
        unsafe {
            let function =
                function_create(library, c"add".as_ptr(), ptr::null(), 0, ptr::null_mut());
            library_release(library);
            let mut info = soft_function_info::default();
            function_describe(function, &mut info);
            assert_eq!(info.thread_execution_width, 32);

            let (mut a, mut b, mut out) = ([1f32, 2.0], [10f32, 20.0], [0f32; 2]);
            let mut args = elementwise_args { count: 2 };
            let bytes = |pointer: *mut c_void, length| soft_binding { pointer, length };
            let mut dispatch = soft_dispatch {
                grid: [2, 1, 1],
                threadgroup: [256, 1, 1],
                threads: true,
                ..Default::default()
            };
            dispatch.bindings[ELEMENTWISE_A as usize] = bytes(a.as_mut_ptr().cast(), 8);
            dispatch.bindings[ELEMENTWISE_B as usize] = bytes(b.as_mut_ptr().cast(), 8);
            dispatch.bindings[ELEMENTWISE_OUT as usize] = bytes(out.as_mut_ptr().cast(), 8);
            dispatch.bindings[ELEMENTWISE_ARGS as usize] = bytes((&raw mut args).cast(), 8);
            assert_eq!(execute(function, &dispatch, ptr::null_mut()), SOFT_OK);
            assert_eq!(out, [11.0, 22.0]);

            let mut error = ptr::null_mut();
            dispatch.bindings[ELEMENTWISE_B as usize].length = 7;
            assert_eq!(execute(function, &dispatch, &mut error), SOFT_PAGE_FAULT);
            let text = take(error);
            assert!(
                text.contains("add") && text.contains("b (binding 1)"),
                "{text}"
            );
            dispatch.bindings[ELEMENTWISE_B as usize].pointer = ptr::null_mut();
            assert_eq!(execute(function, &dispatch, &mut error), SOFT_INVALID);
            assert!(take(error).contains("nothing is bound"));
            function_release(function);
        }
    }

    #[test]
    fn nothing_is_an_error_and_not_a_crash() {
        let mut error = ptr::null_mut();
        // SAFETY: NULL is allowed everywhere, live handles are released once.
        unsafe {
            assert!(library_create(ptr::null(), 0, &mut error).is_null());
            assert!(take(error).contains("NULL"));
            assert!(library_create(c"kernel".as_ptr(), 6, &mut error).is_null());
            assert!(take(error).starts_with("program_source:1: error: "));
            assert!(library_create(c"kernel".as_ptr(), 6, ptr::null_mut()).is_null());
            assert!(library_function_name(ptr::null(), 0).is_null());
            let name = c"none".as_ptr();
            assert!(function_create(ptr::null_mut(), name, ptr::null(), 0, &mut error).is_null());
            assert!(take(error).contains("NULL"));
            let library = own_library("rope");
            assert!(function_create(library, name, ptr::null(), 0, &mut error).is_null());
            assert!(take(error).contains("none"));
            assert!(library_function_name(library, 1).is_null());
            library_release(library);
            assert_eq!(
                execute(ptr::null(), &Default::default(), &mut error),
                SOFT_INVALID
            );
            assert!(take(error).contains("NULL"));
            function_describe(ptr::null(), ptr::null_mut());
            function_release(ptr::null_mut());
            library_release(ptr::null_mut());
            string_release(ptr::null_mut());
        }
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let text = guarded::<()>(|| panic!("planted {}", 1)).expect_err("it panicked");
        assert!(text.contains("bug") && text.contains("planted 1"), "{text}");
        let text = guarded::<()>(|| std::panic::panic_any(1)).expect_err("it panicked");
        assert!(text.contains("without a message"), "{text}");
    }

    #[test]
    fn a_text_with_a_zero_loses_the_zero() {
        assert_eq!(take(into_c_string(String::from("a\0b"))), "ab");
    }
}
