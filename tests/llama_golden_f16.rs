//! The same model in F16. Its file is too large for the crate's package, so that this test is in the repository alone.

mod golden;

#[test]
fn f16_is_right() {
    let path = golden::repository("tests/data/tiny-rustbook-f16.gguf");
    assert!(
        path.exists(),
        "{} is missing: it belongs to the repository",
        path.display()
    );
    golden::check("tests/data/tiny-rustbook-f16.gguf", "f16");
}
