//! What the targets do: `make fuzz`. The same checks run without a fuzzer in `tests/llama/hostile_files.rs`.

#[path = "../../tests/llama/hostile_files/checks.rs"]
pub mod checks;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/models");
