//! A backend in a shared library, for tests of what stands above backends. Builds with debug assertions have it.
//!
//! `external:path=LIBRARY,OPTIONS`. The library has `soft_external_open`, which is `soft_backend_open` with a function
//! that opens the CPU as its last argument: it may build on that. It is never unloaded.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use super::cpu::backend::Cpu;
use super::fault::Fault;
use super::ffi::backend::*;
use super::vtable;

type Open = unsafe extern "C" fn(
    *const c_char,
    *mut *mut soft_backend,
    *mut *const soft_backend_table,
    *mut *mut c_char,
) -> soft_outcome;

type OpenExternal = unsafe extern "C" fn(
    *const c_char,
    *mut *mut soft_backend,
    *mut *const soft_backend_table,
    *mut *mut c_char,
    Open,
) -> soft_outcome;

/// What [`open`] gives: the backend and its table.
pub type Opened = (*mut soft_backend, *const soft_backend_table);

/// `options`: what comes after `external:`.
pub fn open(options: &str, host: Open) -> Result<Opened, Fault> {
    let mut path = None;
    let mut rest = Vec::new();
    for option in options.split(',') {
        match option.strip_prefix("path=") {
            Some(given) => path = Some(given),
            None => rest.push(option),
        }
    }
    let path = path.ok_or_else(|| Fault::Invalid(String::from("external: there is no path=")))?;
    let which = text(&format!("external:{}", rest.join(",")))?;
    let open = load(path)?;
    let (mut backend, mut table, mut said) = (ptr::null_mut(), ptr::null(), ptr::null_mut());
    // SAFETY: the function is of this type, as the module's comment says, and takes places for its results.
    let outcome = unsafe { open(which.as_ptr(), &mut backend, &mut table, &mut said, host) };
    match outcome {
        SOFT_OK => Ok((backend, table)),
        _ => Err(Fault::Invalid(take(said))),
    }
}

/// The CPU, for a backend that builds on it.
///
/// # Safety
/// As `soft_backend_open` of `backend.h`.
pub unsafe extern "C" fn open_cpu(
    _which: *const c_char,
    backend: *mut *mut soft_backend,
    table: *mut *const soft_backend_table,
    text: *mut *mut c_char,
) -> soft_outcome {
    let open = || {
        let (opened, functions) = vtable::open(Cpu::default())?;
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

fn text(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|error| Fault::Invalid(format!("external: {error}")))
}

fn load(path: &str) -> Result<OpenExternal, Fault> {
    let path = text(path)?;
    // SAFETY: texts; loading runs the library's initializers, which whoever names it vouches for.
    let symbol = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        match library.is_null() {
            true => ptr::null_mut(),
            false => libc::dlsym(library, c"soft_external_open".as_ptr()),
        }
    };
    if symbol.is_null() {
        // SAFETY: NULL or a text, which is copied before another call of these functions.
        let error = unsafe { libc::dlerror().as_ref() };
        let said = error.map_or("no reason given".into(), |error| {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(error) }.to_string_lossy()
        });
        return Err(Fault::Invalid(format!("external: {said}")));
    }
    // SAFETY: the module's comment says of which type the symbol is.
    Ok(unsafe { std::mem::transmute::<*mut libc::c_void, OpenExternal>(symbol) })
}

/// A text from malloc, which is freed.
fn take(said: *mut c_char) -> String {
    if said.is_null() {
        return String::from("external: the backend gave no reason");
    }
    // SAFETY: backend.h: a text from malloc.
    unsafe {
        let text = CStr::from_ptr(said).to_string_lossy().into_owned();
        libc::free(said.cast());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_loaded_is_an_error() {
        for (options, said) in [
            ("", "there is no path="),
            ("fail=1", "there is no path="),
            ("path=/nowhere/libnothing.so", "libnothing.so"),
        ] {
            let refused = open(options, open_cpu).err();
            assert!(
                matches!(&refused, Some(Fault::Invalid(text)) if text.contains(said)),
                "{refused:?}"
            );
        }
    }
}
