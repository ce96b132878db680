//! The Metal sources of ironbridge's own kernels, which the build embeds.

use std::ffi::{CStr, c_char};
use std::slice;

/// One of the sources that the build embeds.
pub struct OwnSource {
    pub family: &'static str,
    pub text: &'static [u8],
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

pub fn own_sources() -> impl Iterator<Item = OwnSource> {
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

/// The own source that this is, if it is one: as it stands, or with the line before it that states a language version.
pub fn own_source_of(text: &[u8]) -> Option<OwnSource> {
    own_sources().find(|own| own.text == without_version(text))
}

/// What follows the lines that `native/softmetal/SoftLibrary.m` puts before a source of another language version.
fn without_version(text: &[u8]) -> &[u8] {
    const LINES: (&[u8], usize, &[u8]) = (
        b"#undef __METAL_VERSION__\n#define __METAL_VERSION__ ",
        3,
        b"\n#line 1\n",
    );
    let rest = text
        .strip_prefix(LINES.0)
        .and_then(|rest| rest.get(LINES.1..)?.strip_prefix(LINES.2));
    rest.unwrap_or(text)
}

/// Family and text of each of ironbridge's own sources.
#[cfg(test)]
pub fn own_metal_sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    own_sources().map(|own| (own.family, str::from_utf8(own.text).expect("UTF-8")))
}
