#![no_main]

use std::sync::LazyLock;

use ironbridge::ffi::{IRON_OK, iron_diagnose, iron_diagnostics};

/// How many handles there are when the model is there and nothing else.
static HANDLES: LazyLock<i64> = LazyLock::new(|| {
    ironbridge_fuzz::checks::c_calls(&[]);
    handles()
});

fn handles() -> i64 {
    let mut diagnostics = iron_diagnostics {
        size: size_of::<iron_diagnostics>(),
        ..Default::default()
    };
    // SAFETY: a place of the right type that says its size.
    assert_eq!(unsafe { iron_diagnose(&mut diagnostics) }, IRON_OK);
    diagnostics.live_handles
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = *HANDLES;
    ironbridge_fuzz::checks::c_calls(bytes);
    assert_eq!(handles(), before, "handles that are not given back");
});
