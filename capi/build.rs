//! What the shared library exports, and the name that programs know it by.

#[path = "../build/exports.rs"]
mod exports;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../build/exports.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("CARGO_CFG_TARGET_OS").expect("cargo sets CARGO_CFG_TARGET_OS");
    exports::only_the_c_abi(&out, &target);
    let major = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the version");
    match target.as_str() {
        "macos" => {
            let name = format!("@rpath/libironbridge.{major}.dylib");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,{name}");
            link_beside(
                &out,
                "libironbridge.dylib",
                &format!("libironbridge.{major}.dylib"),
            );
        }
        _ => {
            let name = format!("libironbridge.so.{major}");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
            link_beside(&out, "libironbridge.so", &name);
        }
    }
}

/// Programs look for the library by its soname, which cargo gives no file. A link of that name in the two folders where
/// cargo puts the library lets them run without an installation.
fn link_beside(out: &Path, library: &str, name: &str) {
    // target/PROFILE/build/PACKAGE/out
    let Some(profile) = out.ancestors().nth(3) else {
        return;
    };
    for folder in [profile.to_path_buf(), profile.join("deps")] {
        let link = folder.join(name);
        // A link that is there already has the right target.
        if let Err(error) = std::os::unix::fs::symlink(library, &link)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            println!("cargo:warning=cannot link {}: {error}", link.display());
        }
    }
}
