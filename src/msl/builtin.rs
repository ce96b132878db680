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

/// The lines that `native/softmetal/SoftLibrary.m` puts before a source of another language version, around its three
/// digits.
const VERSION: (&str, usize, &str) = (
    "#undef __METAL_VERSION__\n#define __METAL_VERSION__ ",
    3,
    "\n#line 1\n",
);

/// What follows those lines.
fn without_version(text: &[u8]) -> &[u8] {
    let rest = text
        .strip_prefix(VERSION.0.as_bytes())
        .and_then(|rest| rest.get(VERSION.1..)?.strip_prefix(VERSION.2.as_bytes()));
    rest.unwrap_or(text)
}

/// Family and text of each of ironbridge's own sources, as the bridge's devices compile them: in Metal 3.0. Tests that
/// compile another text would make other entries of the cache.
#[cfg(test)]
pub fn own_metal_sources() -> impl Iterator<Item = (&'static str, String)> {
    own_sources().map(|own| {
        let text = String::from_utf8(own.text()).expect("UTF-8");
        (own.family, format!("{}300{}{text}", VERSION.0, VERSION.2))
    })
}
