//! Builds the native side: `native/**/*.{c,m}` with clang, the Metal sources embedded as text, the Rust declarations of
//! the C headers with bindgen, and Rust of the tables in `native/kernels/*.def`.
//!
//! Nothing native is built and the checked-in declarations are used where only types matter: on docs.rs, which has no
//! GNUstep, and under `IRONBRIDGE_CHECK_ONLY=1`, which type-checks for a Mac from a host without Apple's SDK (`make
//! check-apple`).

#[path = "build/bindings.rs"]
mod bindings;
#[path = "build/clang.rs"]
mod clang;
#[path = "build/deployment.rs"]
mod deployment;
#[path = "build/gnustep.rs"]
mod gnustep;
#[path = "build/kernels.rs"]
mod kernels;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
#[path = "src/msl"]
#[allow(dead_code, reason = "the library uses the rest")]
mod msl {
    pub mod error;
    pub mod ptx;
    pub mod rewrite;
    pub mod target;
    pub mod tokens;
}
#[path = "build/protocols.rs"]
mod protocols;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
#[path = "build/ptx.rs"]
mod ptx;
#[path = "build/tables.rs"]
mod tables;

use std::env;
use std::path::{Path, PathBuf};
use std::process::exit;

use clang::Clang;
use protocols::Adopts;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(message) = tables::write(&out) {
        eprintln!("\nironbridge cannot read its tables: {message}\n");
        exit(1);
    }

    println!("cargo:rustc-check-cfg=cfg(ironbridge_native)");
    // The level of this package, which is not the program's (src/build_profile.rs).
    println!("cargo:rustc-check-cfg=cfg(ironbridge_unoptimized)");
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo:rustc-cfg=ironbridge_unoptimized");
    }
    for variable in ["DOCS_RS", "IRONBRIDGE_CHECK_ONLY"] {
        println!("cargo:rerun-if-env-changed={variable}");
        if env::var_os(variable).is_some_and(|value| value == "1") {
            bindings::use_checked_in(&out);
            #[cfg(all(feature = "nvidia", target_os = "linux"))]
            std::fs::write(out.join("nvidia_kernels.bin"), []).expect("OUT_DIR can be written");
            return;
        }
    }
    if let Err(message) = build(&out) {
        eprintln!("\nironbridge cannot build its native side: {message}\n");
        exit(1);
    }
}

fn build(out: &Path) -> Result<(), String> {
    let target = env::var("CARGO_CFG_TARGET_OS").expect("cargo sets CARGO_CFG_TARGET_OS");
    if !matches!(target.as_str(), "linux" | "macos") {
        return Err(format!(
            "{target} is not a supported host; ironbridge runs on macOS 13 or later and on Linux"
        ));
    }
    if target == "macos" {
        println!("cargo:rerun-if-env-changed={}", deployment::VARIABLE);
        deployment::check(env::var(deployment::VARIABLE).ok().as_deref())?;
    }
    bindings::generate(out);

    let clang = Clang::find(out, &target)?;
    #[cfg(all(feature = "nvidia", target_os = "linux"))]
    if target == "linux" {
        println!("cargo:rerun-if-changed=src/msl");
        ptx::embed(&clang, out)?;
    }
    let sources = native_sources();
    let mut native = clang.compiler();
    native
        .include("include")
        .include("native")
        .include("native/bridge")
        .include("native/kernels")
        .include("native/objects")
        .include("native/softmetal");
    if target == "linux" {
        // Apple's headers are the system's; here <Metal/Metal.h> is ours.
        native.include("native/softmetal/headers");
    }
    // The leak detector's own test: a bridge whose pools are compiled out must fail it.
    if is_asked_for("IRONBRIDGE_TEST_WITHOUT_POOLS") {
        native.flag("-DIRON_TEST_WITHOUT_POOLS");
    }
    // What only a Mac has otherwise: Metal devices that are not ours, and constants that cannot be read.
    if is_asked_for("IRONBRIDGE_TEST_AS_MAC") {
        native.flag("-DIRON_TEST_AS_MAC");
    }
    for (variable, sanitizer) in [
        ("IRONBRIDGE_TEST_ADDRESS_SANITIZER", "address"),
        ("IRONBRIDGE_TEST_THREAD_SANITIZER", "thread"),
    ] {
        if is_asked_for(variable) {
            native.flag(format!("-fsanitize={sanitizer}"));
            // For executables of this package. RUSTFLAGS would do it too, and compile every dependency anew.
            for argument in clang.sanitizer_runtime(&target, sanitizer)? {
                println!("cargo:rustc-link-arg={argument}");
            }
        }
    }
    // Builds with debug assertions check who holds which lock (native/objects/held_locks.h).
    if env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
        native.flag("-DIRON_CHECK_LOCKS");
    }
    let failed = |error| format!("{error}\ncompiler: {}", clang.path().display());
    let mut objects = Vec::new();
    for (adopts, sources) in Adopts::groups(sources) {
        let mut group = native.clone();
        if target == "linux" {
            adopts.configure(&mut group, out);
        }
        let compiled = group.files(sources).try_compile_intermediates();
        objects.extend(compiled.map_err(failed)?);
    }
    // Objective-C classes are found by name at run time, so the linker sees no reference to them and would drop them.
    native
        .file(kernels::embed(out)?)
        .objects(objects)
        .link_lib_modifier("+whole-archive")
        .try_compile("ironbridge_native")
        .map_err(failed)?;
    clang.link(&target);
    clang.describe_for_tests(&target);
    clang.describe_for_doctor();
    println!("cargo:rustc-cfg=ironbridge_native");
    Ok(())
}

/// Whether the environment's variable is 1, which is watched.
fn is_asked_for(variable: &str) -> bool {
    println!("cargo:rerun-if-env-changed={variable}");
    env::var_os(variable).is_some_and(|value| value == "1")
}

/// Whether the features ask for that source. Without a software device, Metal's own classes are left of its folder:
/// hosts without Metal lack them.
fn is_wanted(source: &Path) -> bool {
    let software = cfg!(feature = "software-device");
    if source == Path::new("native/bridge/device/software_device.m") {
        return software;
    }
    if source == Path::new("native/bridge/device/no_software_device.m") {
        return !software;
    }
    software
        || !source.starts_with("native/softmetal")
        || source == Path::new("native/softmetal/MetalClasses.m")
}

/// Every `.c` and `.m` below `native/`, in a stable order. Each one, and each header and kernel, is watched.
fn native_sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut folders = vec![PathBuf::from("native"), PathBuf::from("include")];
    while let Some(folder) = folders.pop() {
        println!("cargo:rerun-if-changed={}", folder.display());
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            println!("cargo:rerun-if-changed={}", path.display());
            let is_source = path
                .extension()
                .is_some_and(|kind| kind == "c" || kind == "m");
            if is_source && is_wanted(&path) {
                sources.push(path);
            }
        }
    }
    sources.sort();
    sources
}
