//! What executes below the software Metal device: the backends behind `native/softmetal/backend.h`, by name.

pub(crate) mod cpu;
#[cfg(debug_assertions)]
mod external;
mod fault;
mod ffi;
mod monitor;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod nvidia;
mod schedule;
mod symbol;
mod time_limit;
#[allow(
    dead_code,
    reason = "a processor has no use for all that a GPU is told"
)]
mod vtable;

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

use fault::Fault;
use ffi::backend::*;

symbol::define!(
    "soft_backend_open",
    soft_backend_open: unsafe extern "C" fn(
        *const c_char,
        *mut *mut soft_backend,
        *mut *const soft_backend_table,
        *mut *mut c_char,
    ) -> soft_outcome
);

symbol::define!("soft_backend_count", soft_backend_count: unsafe extern "C" fn(*const c_char) -> u32);

/// `soft_backend_count` of `backend.h`.
unsafe extern "C" fn soft_backend_count(name: *const c_char) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: backend.h: a text.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    vtable::guarded(|| Ok(count(&name))).unwrap_or(0)
}

fn count(name: &str) -> u32 {
    match name {
        "cpu" => 1,
        #[cfg(all(feature = "nvidia", target_os = "linux"))]
        "nvidia" => nvidia::backend::count(),
        _ => 0,
    }
}

/// `soft_backend_open` of `backend.h`.
unsafe extern "C" fn soft_backend_open(
    which: *const c_char,
    backend: *mut *mut soft_backend,
    table: *mut *const soft_backend_table,
    text: *mut *mut c_char,
) -> soft_outcome {
    let open = || {
        if which.is_null() || backend.is_null() || table.is_null() {
            return Err(Fault::Invalid(String::from("an argument is NULL")));
        }
        // SAFETY: backend.h: a text.
        let which = unsafe { CStr::from_ptr(which) }.to_string_lossy();
        let (opened, functions) = open(&substituted(&which))?;
        // SAFETY: backend.h: places for both.
        unsafe {
            backend.write(opened);
            table.write(functions);
        }
        Ok(())
    };
    // SAFETY: backend.h: NULL or a place for the text.
    unsafe { vtable::report(text, open) }
}

/// What the processor stands for in tests: another backend, with these options. Builds with debug assertions ask.
#[cfg(debug_assertions)]
const SUBSTITUTE_VARIABLE: &str = "IRONBRIDGE_TEST_BACKEND";

/// What is opened for `which`.
fn substituted(which: &str) -> Cow<'_, str> {
    #[cfg(debug_assertions)]
    if let (Some(options), Ok(substitute)) = (
        which
            .strip_prefix("cpu")
            .filter(|options| options.is_empty() || options.starts_with(':')),
        std::env::var(SUBSTITUTE_VARIABLE),
    ) {
        return Cow::Owned(substitute + &options.replacen(':', ",", 1));
    }
    Cow::Borrowed(which)
}

/// `which`: `NAME` or `NAME:OPTIONS`.
fn open(which: &str) -> Result<(*mut soft_backend, *const soft_backend_table), Fault> {
    let (name, options) = which.split_once(':').unwrap_or((which, ""));
    match name {
        "cpu" => {
            let (backend, table) = vtable::open(cpu::backend::Cpu::with_options(options)?)?;
            Ok((backend, table))
        }
        #[cfg(debug_assertions)]
        "external" => external::open(options, external::open_cpu),
        #[cfg(all(feature = "nvidia", target_os = "linux"))]
        "nvidia" => {
            let (backend, table) = vtable::open(nvidia::backend::Nvidia::open(options)?)?;
            Ok((backend, table))
        }
        #[cfg(not(all(feature = "nvidia", target_os = "linux")))]
        "nvidia" => Err(Fault::Unsupported(String::from(
            "this build has no NVIDIA GPUs: it is without the feature nvidia",
        ))),
        _ => Err(Fault::Unsupported(format!(
            "there is no backend named {name:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_opened_by_its_name() {
        let (backend, table) = open("cpu").expect("it is built in");
        // SAFETY: just opened, released once.
        unsafe { ((*table).release.expect("the table is full"))(backend) };
        let refused = open("gpu:1").expect_err("there is none");
        assert!(
            matches!(&refused, Fault::Unsupported(text) if text.contains("gpu")),
            "{refused:?}"
        );
        let refused = open("cpu:color=red").expect_err("no such option");
        assert!(
            matches!(&refused, Fault::Invalid(text) if text.contains("'color'")),
            "{refused:?}"
        );
    }
}
