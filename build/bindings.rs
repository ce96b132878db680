//! Rust declarations of the C headers: made with bindgen where libclang is at hand, else the checked-in ones are used.
//! `tests/c_abi/bindings.rs` holds the two equal; `make bindings` copies the made ones over the checked-in ones.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::clang::sysroot;

/// (headers, items to declare, name of the result in OUT_DIR and below `src/`)
const HEADERS: [(&[&str], &str, &str, &str); 4] = [
    (
        // and ironbridge.h, which both include
        &["include/ironbridge_memory.h", "include/ironbridge_llama.h"],
        "(iron|IRON)_.*",
        "ironbridge.rs",
        "src/ffi/ironbridge.rs",
    ),
    (
        &["include/ironbridge_monitor.h"],
        "(iron|IRON)_.*",
        "monitor.rs",
        "src/ffi/monitor.rs",
    ),
    (
        &["native/kernels/args.h"],
        ".*_args|(MATMUL|EMBEDDING|RMS_NORM|ROPE|ATTENTION|ELEMENTWISE|ACTIVATION|ADD_BIAS|TRANSPOSE|SOFTMAX|COPY\
         |ARGMAX|SUM_ROWS|MSE|CROSS_ENTROPY|SGD|ADAM|SUM_SQUARES|CLIP_NORM|GATED\
         |ACCUMULATE)_[A-Z_]+",
        "args.rs",
        "src/backend/ffi/args.rs",
    ),
    (
        &["native/softmetal/backend.h"],
        "(soft|SOFT)_.*",
        "backend.rs",
        "src/backend/ffi/backend.rs",
    ),
];

/// Puts declarations of every header into OUT_DIR and says in `cfg(ironbridge_bindings)` that they were made from the
/// headers.
pub fn generate(out: &Path) {
    println!("cargo:rustc-check-cfg=cfg(ironbridge_bindings)");
    println!("cargo:rerun-if-env-changed=LIBCLANG_PATH");
    if env::var_os("LIBCLANG_PATH").is_none() {
        match libclang_folder() {
            // SAFETY: a build script's main thread, before anything starts another one.
            Some(folder) => unsafe { env::set_var("LIBCLANG_PATH", folder) },
            None => return use_checked_in(out),
        }
    }
    for (headers, items, name, _) in HEADERS {
        let made = bindgen::Builder::default()
            .headers(headers.iter().copied())
            .allowlist_item(items)
            .prepend_enum_name(false)
            .derive_default(true)
            .layout_tests(true)
            .generate_comments(false)
            .use_core()
            .merge_extern_blocks(true)
            .formatter(bindgen::Formatter::Prettyplease)
            .rust_target(bindgen::RustTarget::stable(88, 0).unwrap_or_default())
            .rust_edition(bindgen::RustEdition::Edition2024)
            .clang_args(["-std=c11", "-Inative/kernels"])
            .clang_args(sysroot().map(|folder| format!("--sysroot={}", folder.display())))
            .generate();
        match made {
            Ok(bindings) => {
                bindings
                    .write_to_file(out.join(name))
                    .expect("OUT_DIR is writable");
            }
            Err(error) => {
                println!(
                    "cargo:warning=bindgen could not read {headers:?} ({error}); using the checked-in declarations"
                );
                return use_checked_in(out);
            }
        }
    }
    println!("cargo:rustc-cfg=ironbridge_bindings");
}

/// Copies the checked-in declarations to OUT_DIR.
pub fn use_checked_in(out: &Path) {
    println!("cargo:rustc-check-cfg=cfg(ironbridge_bindings)");
    for (_, _, name, checked_in) in HEADERS {
        println!("cargo:rerun-if-changed={checked_in}");
        fs::copy(checked_in, out.join(name)).expect("the crate ships its declarations");
    }
}

/// The folder of the newest libclang of this machine.
fn libclang_folder() -> Option<PathBuf> {
    let fixed = [
        "/Library/Developer/CommandLineTools/usr/lib",
        "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib",
    ];
    let versioned = (11..40)
        .rev()
        .map(|version| format!("/usr/lib/llvm-{version}/lib"));
    let shared = [
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    fixed
        .into_iter()
        .map(String::from)
        .chain(versioned)
        .chain(shared.into_iter().map(String::from))
        .map(PathBuf::from)
        .find(|folder| {
            fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    name == "libclang.dylib"
                        || name.starts_with("libclang.so")
                        || name.starts_with("libclang-")
                })
        })
}
