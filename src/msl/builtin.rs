//! The Metal sources of ironbridge's own kernels, which the build embeds.

use std::ffi::{CStr, c_char};
use std::slice;

/// One of the sources that the build embeds.
pub struct OwnSource {
    pub family: &'static str,
    parts: &'static [KernelText],
}

impl OwnSource {
    fn parts(&self) -> impl Iterator<Item = &'static [u8]> {
        self.parts
            .iter()
            // SAFETY: `bytes` is a static array of `length` bytes.
            .map(|part| unsafe { slice::from_raw_parts(part.bytes.cast(), part.length) })
    }

    /// Whether `text` is this source.
    fn is(&self, text: &[u8]) -> bool {
        let mut parts = self.parts();
        let rest = parts.try_fold(text, |rest, part| rest.strip_prefix(part));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// The whole source.
    #[cfg(test)]
    pub fn text(&self) -> Vec<u8> {
        self.parts().flatten().copied().collect()
    }
}

/// `kernel_text` of `native/kernels/sources.h`.
#[repr(C)]
struct KernelText {
    bytes: *const c_char,
    length: usize,
}

/// `kernel_source` of `native/kernels/sources.h`.
#[repr(C)]
struct KernelSource {
    family: *const c_char,
    parts: *const KernelText,
    part_count: usize,
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
            // SAFETY: `parts` is a static array of `part_count` elements.
            parts: unsafe { slice::from_raw_parts(entry.parts, entry.part_count) },
        }
    })
}

/// The own source that this is, if it is one: as it stands, or with the line before it that states a language version.
pub fn own_source_of(text: &[u8]) -> Option<OwnSource> {
    own_sources().find(|own| own.is(without_version(text)))
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
pub fn own_metal_sources() -> impl Iterator<Item = (&'static str, String)> {
    own_sources().map(|own| (own.family, String::from_utf8(own.text()).expect("UTF-8")))
}
