//! These tests once more on a second backend.
#![cfg(target_os = "linux")]

#[path = "../second_backend/mod.rs"]
mod suite;

/// The tests that fail there, and why they may.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "kernels::kernels_of_which_no_pipeline_can_be_made_say_why",
    "only the CPU's backend has strict devices",
)];

#[test]
fn every_test_passes_on_a_second_backend() {
    suite::suite_passes(
        "second_backend::every_test_passes_on_a_second_backend",
        EXCEPTIONS,
    );
}
