//! The standard library's headers, carried in this crate and written to the cache for clang to read.

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::{self, Hash};
use super::error::Error;
use super::scratch::Scratch;

macro_rules! headers {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../native/msl/", $name)))),+]
    };
}

/// What the compiler reads before a rewritten source.
const HEADERS: &[(&str, &str)] = headers![
    "msl.h",
    "types.h",
    "traits.h",
    "vector.h",
    "math.h",
    "matrix.h",
    "atomic.h",
    "matrix_place.h",
    "sampler.h",
    "simd.h",
    "internals.h",
    "simdgroup_matrix.h",
    "bound.h",
    "constants.h",
    "cpu/abi.h",
    "cpu/functions.h",
    "cpu/threads.h",
    "cpu/quads.h",
    "cpu/texels.h",
    "cpu/cubes.h",
    "cpu/textures.h",
    "cpu/entry.h",
    "cpu/validation.h",
    "nvptx/functions.h",
    "nvptx/places.h",
    "nvptx/threads.h",
    "nvptx/bulk.h",
    "nvptx/tiles.h",
    "nvptx/quads.h",
    "nvptx/textures.h",
    "nvptx/entry.h",
];

/// What the preprocessor finds as `<metal_stdlib>`, and as every part of it.
const METAL_STDLIB: &str = include_str!("../../native/msl/metal_stdlib");
const METAL_PARTS: &[&str] = &[
    "metal_stdlib",
    "metal_array",
    "metal_assert",
    "metal_atomic",
    "metal_common",
    "metal_compute",
    "metal_config",
    "metal_extended_vector",
    "metal_float",
    "metal_geometric",
    "metal_integer",
    "metal_limits",
    "metal_logging",
    "metal_math",
    "metal_matrix",
    "metal_numeric",
    "metal_pack",
    "metal_packed_vector",
    "metal_quadgroup",
    "metal_relational",
    "metal_simdgroup",
    "metal_simdgroup_matrix",
    "metal_texture",
    "metal_type_traits",
    "metal_types",
    "metal_uniform",
    "metal_utility",
    "metal/metal",
    "metal/metal_stdlib",
    "simd/simd.h",
    "TargetConditionals.h",
];

/// The headers' folders on disk.
pub struct Shim {
    /// For the compiler: the declarations.
    pub library: PathBuf,
    /// For the preprocessor: the macros.
    pub macros: PathBuf,
    /// Of everything in them.
    pub hash: Hash,
    /// Where they are when the cache has no room for them.
    scratch: Option<Scratch>,
}

impl Shim {
    /// Whether the folders stay where they are when this is gone.
    pub fn is_kept(&self) -> bool {
        self.scratch.is_none()
    }

    /// Writes what is missing or different below `cache`, or all of it to a folder of its own.
    pub fn install(cache: &Path) -> Result<Shim, Error> {
        let mut hash = Hash::new();
        for (name, text) in HEADERS {
            hash = hash.with(name.as_bytes()).with(text.as_bytes());
        }
        hash = hash.with(METAL_STDLIB.as_bytes());
        let install = |folder: PathBuf, scratch: Option<Scratch>| {
            let (library, macros) = (folder.join("library"), folder.join("macros"));
            for (name, text) in HEADERS {
                install(&library.join(name), text)?;
            }
            for name in METAL_PARTS {
                install(&macros.join(name), METAL_STDLIB)?;
            }
            Ok(Shim {
                library,
                macros,
                hash,
                scratch,
            })
        };
        install(cache.join(format!("headers-{hash}")), None).or_else(|_: Error| {
            Scratch::anywhere(|scratch| install(scratch.path().to_path_buf(), Some(scratch)))
        })
    }
}

/// Whether a path that clang names is that of a header of the library.
pub fn is_of_the_library(path: &str) -> bool {
    // A target's header includes those above it by `../`.
    let within = path.rsplit_once("/library/").map(|(_, name)| {
        let above = name.rsplit_once("../");
        above.map_or(name, |(_, name)| name)
    });
    within.is_some_and(|name| HEADERS.iter().any(|(header, _)| *header == name))
}

fn install(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::host(folder.display(), error))?;
    }
    cache::write_whole(path, text.as_bytes()).map_err(|error| Error::host(path.display(), error))
}
