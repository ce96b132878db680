//! Which kernels a Metal source stands for.
//!
//! ironbridge's own sources (`native/kernels/*.metal`) are recognised by their text and answered with the native kernels of that family.

use std::ffi::{CStr, c_char};
use std::slice;
use std::sync::Arc;

use super::kernels::{self, Kernel};

/// Picks what runs a kernel of ours: `native` (the default) or `msl`.
pub const KERNELS_VARIABLE: &str = "IRONBRIDGE_SOFT_KERNELS";

/// A compiled source.
#[derive(Debug)]
pub enum Library {
    /// One of ironbridge's own sources, run by native kernels.
    Native(Vec<&'static Kernel>),
}

/// One kernel of a library. It keeps the library alive.
#[derive(Debug)]
pub struct Function {
    pub code: Code,
    _library: Arc<Library>,
}

/// What a function runs.
#[derive(Debug)]
pub enum Code {
    Native(&'static Kernel),
}

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    Native,
    Msl,
}

impl KernelChoice {
    pub fn from_environment() -> Result<KernelChoice, String> {
        match std::env::var_os(KERNELS_VARIABLE) {
            Some(text) => KernelChoice::parse(&text.to_string_lossy()),
            None => Ok(KernelChoice::Native),
        }
    }

    fn parse(text: &str) -> Result<KernelChoice, String> {
        match text {
            "native" => Ok(KernelChoice::Native),
            "msl" => Ok(KernelChoice::Msl),
            _ => Err(format!(
                "{KERNELS_VARIABLE} is {text:?}; it must be \"native\" or \"msl\""
            )),
        }
    }
}

impl Library {
    /// Compiles `source`. The error is a sentence for the user.
    pub fn compile(source: &[u8], choice: KernelChoice) -> Result<Library, String> {
        if choice == KernelChoice::Msl {
            return Err(format!(
                "{KERNELS_VARIABLE}=msl: this build of the software device cannot run Metal Shading Language yet; unset it or set \
                 it to \"native\""
            ));
        }
        let family = own_sources()
            .find(|own| own.text == source)
            .map(|own| own.family)
            .ok_or_else(|| {
                String::from(
                    "this build of the software device runs ironbridge's own kernels only: it cannot compile a user's Metal \
                     Shading Language yet",
                )
            })?;
        Ok(Library::Native(kernels::family(family).collect()))
    }

    /// The name of kernel `index`, or `None` past the last one.
    pub fn function_name(&self, index: usize) -> Option<&CStr> {
        match self {
            Library::Native(kernels) => kernels.get(index).map(|kernel| kernel.name),
        }
    }

    pub fn function(self: &Arc<Library>, name: &CStr) -> Result<Function, String> {
        let Library::Native(kernels) = &**self;
        let kernel = kernels.iter().find(|kernel| kernel.name == name);
        let kernel = kernel.ok_or_else(|| format!("the library has no kernel named {name:?}"))?;
        Ok(Function {
            code: Code::Native(kernel),
            _library: Arc::clone(self),
        })
    }
}

/// One of the sources that the build embeds.
struct OwnSource {
    family: &'static str,
    text: &'static [u8],
}

/// `kernel_source` of `native/kernels/sources.h`.
#[repr(C)]
struct KernelSource {
    family: *const c_char,
    text: *const c_char,
    length: usize,
}

unsafe extern "C" {
    /// `kernel_source_count` entries and a terminator.
    safe static kernel_sources: KernelSourceTable;
    safe static kernel_source_count: usize;
}

#[repr(C)]
struct KernelSourceTable([KernelSource; 0]);

// SAFETY: constant data of the native archive, never written.
unsafe impl Sync for KernelSourceTable {}

fn own_sources() -> impl Iterator<Item = OwnSource> {
    // SAFETY: sources.h promises `kernel_source_count` entries in static storage.
    let table =
        unsafe { slice::from_raw_parts((&raw const kernel_sources).cast(), kernel_source_count) };
    table.iter().map(|entry: &KernelSource| {
        // SAFETY: `family` is a NUL-terminated literal.
        let family = unsafe { CStr::from_ptr(entry.family) };
        OwnSource {
            family: family.to_str().expect("build.rs takes UTF-8 names only"),
            // SAFETY: `text` is a static array of `length` bytes and a NUL.
            text: unsafe { slice::from_raw_parts(entry.text.cast(), entry.length) },
        }
    })
}
