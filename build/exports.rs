//! What the shared library exports: the header's functions, on Linux Metal's functions, constants and classes, and
//! nothing else.
//!
//! rustc writes a version script that exports Rust's own `#[no_mangle]` items and hides everything else, native code
//! included. A second script adds ours. GNU ld refuses two scripts, LLVM's linker merges them: it is picked for this
//! one link. It comes with every rustup toolchain (and is x86-64 Linux's default since Rust 1.90).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the cdylib export `iron_*`, and Metal's names where no framework has them.
pub fn only_the_c_abi(out: &Path, target: &str) {
    let link = if target == "macos" {
        // Apple's linker adds the lists up.
        let list = write(out, "exports.txt", "_iron_*\n");
        vec![format!("-Wl,-exported_symbols_list,{list}")]
    } else {
        let script = write(
            out,
            "exports.map",
            "{ global: iron_*; MTL*; __objc_class_name_MTL*; };\n",
        );
        match merging_linker(out) {
            Some(mut flags) => {
                flags.push(format!("-Wl,--version-script={script}"));
                flags
            }
            None => {
                println!(
                    "cargo:warning=libironbridge.so will export nothing: only LLVM's linker can do it and there is none here \
                     (install lld, or use a Rust toolchain from rustup)"
                );
                vec![]
            }
        }
    };
    for flag in link {
        println!("cargo:rustc-cdylib-link-arg={flag}");
    }
}

/// The flags that make the linker driver use a linker that merges version scripts, found by trying.
fn merging_linker(out: &Path) -> Option<Vec<String>> {
    let driver = env::var_os("RUSTC_LINKER").unwrap_or_else(|| OsString::from("cc"));
    let source = write(
        out,
        "exports_probe.c",
        "int iron_probe(void) { return 0; }\n",
    );
    let first = write(out, "exports_probe_1.map", "{ local: *; };\n");
    let second = write(out, "exports_probe_2.map", "{ global: iron_*; };\n");
    let lld = || vec![String::from("-fuse-ld=lld")];
    let of_rust =
        rust_lld().map(|folder| [vec![format!("-B{}", folder.display())], lld()].concat());
    of_rust.into_iter().chain([lld(), vec![]]).find(|flags| {
        Command::new(&driver)
            .args(["-shared", "-fPIC", "-nostdlib", &source, "-o"])
            .arg(out.join("exports_probe.so"))
            .args(flags)
            .args([&first, &second].map(|script| format!("-Wl,--version-script={script}")))
            .output()
            .is_ok_and(|output| output.status.success())
    })
}

/// The folder with the `ld.lld` that comes with the Rust toolchain, in the form that `-B` takes.
fn rust_lld() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC")?;
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let folder = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(env::var_os("HOST")?)
        .join("bin/gcc-ld");
    folder.join("ld.lld").exists().then_some(folder)
}

/// Writes a file into OUT_DIR and returns its path.
fn write(out: &Path, name: &str, text: &str) -> String {
    let path = out.join(name);
    fs::write(&path, text).expect("OUT_DIR is writable");
    path.display().to_string()
}
