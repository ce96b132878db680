#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ironbridge_fuzz::checks::folder_settings(bytes);
});
