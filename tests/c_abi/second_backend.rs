//! These tests once more on a second backend.
#![cfg(target_os = "linux")]

#[path = "../second_backend/mod.rs"]
mod suite;

/// The tests that fail there, and why they may.
const EXCEPTIONS: &[(&str, &str)] = &[];

#[test]
fn every_test_passes_on_a_second_backend() {
    suite::suite_passes(
        "second_backend::every_test_passes_on_a_second_backend",
        EXCEPTIONS,
    );
}
