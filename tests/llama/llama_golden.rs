//! The model that comes with the crate writes what exact arithmetic writes.

use crate::golden;

#[test]
fn q8_0_is_right() {
    golden::check("assets/tiny-rustbook-q8_0.gguf", "q8_0");
}
