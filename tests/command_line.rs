//! What a person types and reads.

use std::process::{Command, Output};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

fn ironbridge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args(arguments)
        .env_remove("IRONBRIDGE_DEVICE")
        .output()
        .expect("the command line starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the command line writes UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the command line writes UTF-8")
}

/// Failed, with one line that starts with the program's name and holds `parts`.
#[track_caller]
fn assert_refused(arguments: &[&str], parts: &[&str]) {
    let output = ironbridge(arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("ironbridge: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn generate_writes_the_books_words_to_standard_output_and_the_summary_to_standard_error() {
    let output = ironbridge(&[
        "generate",
        "-m",
        MODEL,
        "-p",
        "Ownership is",
        "-n",
        "24",
        "--device",
        "cpu",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with(
            "Ownership is a set of rules that govern how a Rust program manages memory."
        ),
        "{text}"
    );
    let summary = stderr(&output);
    for part in [
        "prompt",
        "generated",
        "tokens/s",
        "peak device memory",
        "resident",
    ] {
        assert!(summary.contains(part), "{part:?} is not in {summary}");
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_one_another() {
    // Hot, for the model knows its book nearly by heart.
    let text = |seed: &str| {
        let output = ironbridge(&[
            "generate", "-m", MODEL, "-p", "Rust", "-n", "24", "--temp", "4", "--top-k", "0",
            "--top-p", "1", "--seed", seed, "--device", "cpu",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(text("1"), text("1"));
    assert_ne!(text("1"), text("2"));
}

#[test]
fn quiet_leaves_standard_error_empty() {
    let output = ironbridge(&[
        "generate", "-m", MODEL, "-p", "Rust", "-n", "2", "--quiet", "--device", "cpu",
    ]);
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_cannot_be_done_is_said_on_one_line() {
    assert_refused(
        &["generate", "-m", "no/such/model.gguf", "-p", "x"],
        &["no/such/model.gguf", "No such file"],
    );
    assert_refused(
        &[
            "generate",
            "-m",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "-p",
            "x",
        ],
        &["GGUF"],
    );
    assert_refused(
        &["generate", "-m", MODEL, "-p", "x", "--device", "nonsense"],
        &["nonsense"],
    );
    assert_refused(
        &["generate", "-m", MODEL, "-p", "x", "--temp=-1"],
        &["temperature"],
    );
    assert_refused(
        &["stress", "qkv", "--device", "cpu", "--layers", "0"],
        &["layers"],
    );
}

#[test]
fn devices_lists_the_software_device_with_its_limits() {
    let output = ironbridge(&["devices"]);
    assert!(output.status.success());
    let text = stdout(&output);
    for part in [
        "cpu",
        "ironbridge software device",
        "buffers up to",
        "1024 threads",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn inspect_shows_metadata_and_tensors() {
    let text = stdout(&ironbridge(&["inspect", MODEL]));
    for part in [
        "GGUF, version 3",
        "llama.block_count",
        "2048 string: [\"<unk>\"",
        "blk.5.attn_q.weight",
        "256 × 2048",
        "Q8_0",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let json = stdout(&ironbridge(&["inspect", MODEL, "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["format"], "gguf");
    assert_eq!(json["metadata"]["llama.block_count"], 6);
    assert_eq!(json["tensors"].as_array().expect("a list").len(), 57);
    assert_refused(&["inspect", "no/such/file"], &["no/such/file"]);
}

#[test]
fn quantize_writes_a_file_and_never_overwrites_unasked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (source, out) = (path("in.gguf"), path("out.gguf"));
    write_random_model(source.as_ref());
    let quantize =
        |more: &[&str]| ironbridge(&[&["quantize", &source, &out, "q4_k"], more].concat());
    let output = quantize(&["--tensor", "output.weight=Q8_0", "--threads", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 tensors"), "{}", stderr(&output));
    let shown = stdout(&ironbridge(&["inspect", &out]));
    assert!(shown.contains("Q4_K") && shown.contains("Q8_0"), "{shown}");
    assert_refused(
        &["quantize", &source, &out, "q4_k"],
        &["out.gguf", "exists"],
    );
    let output = quantize(&["--force", "--quiet"]);
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
    assert_refused(
        &["quantize", &out, &path("twice.gguf"), "Q8_0"],
        &["Q4_K", "rounding twice"],
    );
    let usage = ironbridge(&["quantize", &source, &out, "Q3_X"]);
    assert!(stderr(&usage).contains("Q4_K"), "{}", stderr(&usage));
}

/// Two matrices in F32.
fn write_random_model(path: &std::path::Path) {
    use ironbridge::llama::gguf::{GgufWriter, Metadata, NewTensor, TensorType};

    let mut metadata = Metadata::default();
    metadata
        .set("general.architecture", "llama")
        .expect("a value");
    let tensors = ["token_embd.weight", "output.weight"].map(|name| NewTensor {
        name: name.into(),
        tensor_type: TensorType::F32,
        dimensions: vec![256, 4],
    });
    let file = std::fs::File::create(path).expect("a file");
    let mut file = GgufWriter::new(file, &metadata, &tensors).expect("a header");
    for index in 0..2 * 256 * 4 {
        let number = ((index * 37 % 101) as f32 - 50.0) / 64.0;
        file.write(&number.to_le_bytes()).expect("written");
    }
    file.finish().expect("a whole file");
}

#[test]
fn help_names_every_command() {
    let text = stdout(&ironbridge(&["--help"]));
    for command in ["generate", "inspect", "quantize", "stress", "devices"] {
        assert!(text.contains(command), "{text}");
    }
    assert!(stdout(&ironbridge(&["generate", "--help"])).contains("--temp"));
    assert!(stdout(&ironbridge(&["stress", "qkv", "--help"])).contains("--kv-dim"));
}
