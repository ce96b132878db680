//! The checked-in declarations of the C headers are the ones that bindgen makes from them.

/// Without libclang the build falls back to the checked-in files and this comparison would prove nothing.
#[cfg(not(ironbridge_bindings))]
compile_error!("this test needs libclang: run `make setup`");

fn assert_equal(made: &str, checked_in: &str, path: &str) {
    assert!(
        made == checked_in,
        "{path} is not what bindgen makes from its header: run `make bindings`"
    );
}

#[test]
fn checked_in_bindings_are_current() {
    macro_rules! check {
        ($made:literal, $checked_in:literal) => {
            assert_equal(
                include_str!(concat!(env!("OUT_DIR"), "/", $made)),
                include_str!(concat!("../../", $checked_in)),
                $checked_in,
            )
        };
    }
    check!("ironbridge.rs", "src/ffi/ironbridge.rs");
    check!("monitor.rs", "src/ffi/monitor.rs");
    check!("args.rs", "src/backend/ffi/args.rs");
    check!("backend.rs", "src/backend/ffi/backend.rs");
}
