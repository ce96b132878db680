//! The oldest macOS that a build promises to run on.

/// What the native code is compiled for, and where the Metal that it calls begins.
pub const OLDEST_MACOS: u32 = 13;
/// Apple's variable, which rustc and clang read. Without it rustc promises macOS 11.
pub const VARIABLE: &str = "MACOSX_DEPLOYMENT_TARGET";

/// An error when the program would claim to run on a macOS that the bridge does not run on.
pub fn check(target: Option<&str>) -> Result<(), String> {
    let Some(target) = target else {
        return Ok(());
    };
    let major = target
        .split('.')
        .next()
        .and_then(|major| major.trim().parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST_MACOS => Ok(()),
        Some(_) => Err(format!(
            "{VARIABLE} is {target}, and ironbridge needs macOS {OLDEST_MACOS} or newer: set it to {OLDEST_MACOS}.0"
        )),
        None => Err(format!(
            "{VARIABLE} is {target:?}; it must be a version such as {OLDEST_MACOS}.0"
        )),
    }
}
