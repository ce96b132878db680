//! The libraries that these tests are about. Cargo builds no cdylib for tests, so the first test has it built; that is
//! quick when nothing has changed.
#![allow(dead_code, reason = "each test program uses its own part of this")]

#[path = "../../../tests/cargo_environment/mod.rs"]
mod cargo_environment;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The folder of the libraries: `target/PROFILE`.
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a running test has a path");
        let folder = test.ancestors().nth(2).expect("target/PROFILE/deps");
        // With the features of the workspace, with which its tests are built: others are another library to compile.
        let mut build = Command::new(Path::new(ROOT).join("scripts/debug-build.sh"));
        build.current_dir(ROOT);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let status = cargo_environment::of_no_package(&mut build).status();
        let status = status.expect("the script starts");
        assert!(status.success(), "the libraries do not build");
        folder.to_path_buf()
    })
}

pub fn shared_library() -> PathBuf {
    libraries().join(format!("libironbridge{}", std::env::consts::DLL_SUFFIX))
}
