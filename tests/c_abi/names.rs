//! Names of statuses and versions.

use std::ffi::CStr;

use ironbridge::ffi::*;

use crate::abi::*;

#[test]
fn names_of_statuses() {
    let header = include_str!("../../include/ironbridge.h");
    let statuses = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("IRON_"))
        .filter_map(|line| line.split_once(" = "))
        .filter(|(name, _)| *name == "OK" || name.starts_with("ERROR_"))
        .map(|(name, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (format!("IRON_{name}"), digits.parse().expect("a number"))
        });
    let mut count = 0;
    for (expected, value) in statuses {
        assert_eq!(name(value), expected);
        count += 1;
    }
    assert!(count > 20);
    for unknown in [18, 1000, u32::MAX] {
        assert_eq!(name(unknown), "IRON_ERROR_UNKNOWN");
    }
}

#[test]
fn the_version_is_the_crates() {
    // SAFETY: static and NUL-terminated.
    let version = unsafe { CStr::from_ptr(iron_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    assert_eq!(CStr::from_bytes_with_nul(IRON_VERSION), Ok(version));
    assert_eq!(call!(iron_abi_version()), IRON_ABI_VERSION);
}
