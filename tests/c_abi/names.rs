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
    for unknown in [23, 1000, u32::MAX] {
        assert_eq!(name(unknown), "IRON_ERROR_UNKNOWN");
    }
}

/// The fields of the headers' structs, each with its type.
fn fields(header: &str) -> Vec<(String, String)> {
    let starts = header.match_indices("struct iron_").map(|(at, _)| at);
    let bodies = starts.filter_map(|at| {
        let (head, body) = header[at..].split_once('{')?;
        (!head.contains([';', ')'])).then(|| body.split("\n}").next())?
    });
    let declarations = bodies.flat_map(|body| body.lines().map(str::trim));
    let declarations = declarations.filter(|line| line.contains(';') && !line.starts_with("/*"));
    declarations
        .filter_map(|line| line.split_once(';')?.0.split_once(' '))
        .map(|(kind, names)| (kind.to_owned(), names.trim().to_owned()))
        .collect()
}

/// Compilers differ in how large these are, and may be told to.
#[test]
fn no_field_is_an_enumeration_or_a_bool() {
    let headers = [
        include_str!("../../include/ironbridge.h"),
        include_str!("../../include/ironbridge_memory.h"),
        include_str!("../../include/ironbridge_monitor.h"),
    ];
    let enumerations: Vec<&str> = headers
        .iter()
        .flat_map(|header| header.split("typedef enum ").skip(1))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert!(enumerations.len() >= 10, "{enumerations:?}");
    let fields: Vec<_> = headers.iter().flat_map(|header| fields(header)).collect();
    assert!(fields.len() > 150, "{}", fields.len());
    for (kind, names) in fields {
        assert!(
            kind != "bool" && kind != "enum" && !enumerations.contains(&kind.as_str()),
            "{kind} {names}"
        );
    }
}

/// Every array has its length as a constant of its own or beside it, none the number of an enumeration's values.
#[test]
fn no_length_is_a_number_of_values() {
    for header in [
        include_str!("../../include/ironbridge.h"),
        include_str!("../../include/ironbridge_memory.h"),
    ] {
        assert!(!header.contains("_COUNT]"));
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
