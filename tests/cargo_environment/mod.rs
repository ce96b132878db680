//! A cargo that a test starts.

use std::process::Command;

/// Takes from its environment what cargo says of the package whose tests it runs. Build scripts of other crates look at
/// that, so that they, and all that depends on them, would be built anew, and once more without it.
pub fn of_no_package(cargo: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"];
        if text == "OUT_DIR" || of_package.iter().any(|start| text.starts_with(start)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}
