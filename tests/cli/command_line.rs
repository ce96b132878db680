//! What a person types and reads.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ironbridge::llama::ModelFile;
use ironbridge::llama::gguf::{GgufWriter, Metadata, NewTensor, TensorType};
use serde_json::Value;

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

const COMMANDS: [&str; 16] = [
    "generate",
    "chat",
    "tokenize",
    "perplexity",
    "bench",
    "embed",
    "finetune",
    "inspect",
    "quantize",
    "stress",
    "metal",
    "devices",
    "doctor",
    "monitor",
    "completions",
    "man",
];

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

fn json(arguments: &[&str]) -> Value {
    let output = ironbridge(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Ctrl-C, by the shell's own `kill`: not every machine has the program.
fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    let kill = Command::new("sh").args(["-c", &kill]).status();
    assert!(kill.expect("a shell").success());
}

/// With `input` as standard input.
fn ironbridge_reading(input: &str, arguments: &[&str]) -> Output {
    let mut child = spawn(arguments);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn spawn(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args(arguments)
        .env_remove("IRONBRIDGE_DEVICE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command line starts")
}

/// `role: content` on a line for each message.
const TEMPLATE: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
    {% if add_generation_prompt %}assistant:{% endif %}";

/// [`TEMPLATE`] in a file.
fn template(folder: &Path) -> String {
    let path = folder.join("template.jinja");
    std::fs::write(&path, TEMPLATE).expect("a file");
    path.display().to_string()
}

/// The model with [`TEMPLATE`] in its file.
fn chat_model(folder: &Path) -> String {
    let model = ModelFile::open(MODEL).expect("a model");
    let mut metadata = model.metadata().clone();
    metadata
        .set("tokenizer.chat_template", TEMPLATE)
        .expect("a value");
    let tensors = model.tensors().iter().map(|tensor| NewTensor {
        name: tensor.name().into(),
        tensor_type: tensor.tensor_type(),
        dimensions: tensor.dimensions().to_vec(),
    });
    let path = folder.join("chat.gguf");
    let file = std::fs::File::create(&path).expect("a file");
    let mut file =
        GgufWriter::new(file, &metadata, &tensors.collect::<Vec<_>>()).expect("a header");
    for tensor in model.tensors() {
        file.write(model.bytes(tensor)).expect("written");
    }
    file.finish().expect("a whole file");
    path.display().to_string()
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
fn json_says_what_the_memory_is_used_for() {
    let output = ironbridge(&[
        "generate", "-m", MODEL, "-p", "Rust", "-n", "2", "--device", "cpu", "--json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let report = &json["memory"];
    let categories = &report["categories"];
    let sum: u64 = categories
        .as_object()
        .expect("an object")
        .values()
        .map(|usage| usage["bytes"].as_u64().expect("bytes"))
        .sum();
    let rounding = report["rounding_bytes"].as_u64().expect("bytes");
    assert_eq!(report["device_bytes"], sum + rounding, "{report:#}");
    assert!(categories["weights"]["bytes"].as_u64() > Some(0));
    // The model was loaded before the baseline, the cache made after it.
    let changes = &report["since_baseline"];
    assert_eq!(changes["weights"]["bytes"], 0, "{report:#}");
    assert_eq!(changes["kv_cache"], categories["kv_cache"]);
    assert!(changes["kv_cache"]["bytes"].as_u64() > Some(0));
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
        &["generate", "-m", MODEL, "-p", "x", "--device", "9"],
        &["no device 9", "`ironbridge devices`"],
    );
    for wrong in [["--temp", "-1"], ["--top-p", "0"]] {
        let output = ironbridge(&[&["generate", "-m", MODEL, "-p", "x"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
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
fn stress_is_json_for_scripts() {
    let report = json(&[
        "stress",
        "qkv",
        "--json",
        "--device",
        "cpu",
        "--layers",
        "2",
        "--d-model",
        "64",
        "--kv-dim",
        "16",
        "--rounds",
        "2",
    ]);
    assert_eq!(report["problems"], serde_json::json!([]));
    assert_eq!(report["wrong"], 0);
    assert!(report["matmuls"].as_u64().expect("a number") >= 2 * 3 * 2);
}

#[test]
fn devices_are_json_for_scripts() {
    let devices = json(&["devices", "--json"]);
    let mut devices = devices.as_array().expect("a list").iter();
    let processor = devices.find(|device| device["selector"] == "cpu");
    let processor = processor.expect("the software device");
    assert!(processor["max_buffer_length"].as_u64().expect("a number") > 0);
}

#[test]
fn generate_tells_scripts_everything() {
    let json = json(&[
        "generate",
        "-m",
        MODEL,
        "-p",
        "Ownership is",
        "-n",
        "8",
        "--stop",
        " that",
        "--json",
        "--log-probabilities",
        "2",
        "--cache",
        "f16",
        "--activations",
        "bytes",
        "--context",
        "64",
    ]);
    assert_eq!(json["text"], " a set of rules");
    assert_eq!(json["stop"], "stop_string");
    let first = &json["tokens"][0];
    assert_eq!(first["text"], " a");
    assert!(first["log_probability"].as_f64().expect("a number") < 0.0);
    assert_eq!(first["likeliest"].as_array().expect("a list").len(), 2);
    assert_eq!(first["likeliest"][0]["id"], first["id"]);

    let written = ironbridge_reading(
        "Ownership is",
        &["generate", "-m", MODEL, "-f", "-", "-n", "2", "-q"],
    );
    assert_eq!(stdout(&written), "Ownership is a set\n");
    // The context is no limit for who forgets.
    let forgetful = ironbridge(&[
        "generate",
        "-m",
        MODEL,
        "-p",
        "Rust",
        "-n",
        "80",
        "--context",
        "32",
        "--forget",
        "1",
        "--json",
    ]);
    let forgetful: Value = serde_json::from_str(&stdout(&forgetful)).expect("JSON");
    assert_eq!(forgetful["generated_tokens"], 80);
}

#[test]
fn json_lines_come_while_the_text_is_written() {
    let generate = [
        "generate", "-m", MODEL, "-p", "Rust", "-n", "8", "--device", "cpu",
    ];
    let whole = json(&[&generate[..], &["--json"]].concat());
    let output = ironbridge(&[&generate[..], &["--json=lines"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let line = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let mut lines: Vec<Value> = stdout(&output).lines().map(line).collect();
    let last = lines.pop().expect("figures");
    assert_eq!(Value::from(lines), whole["tokens"]);
    for key in ["stop", "prompt_tokens", "generated_tokens"] {
        assert_eq!(last[key], whole[key], "{last}");
    }
    assert!(
        last["memory"].is_object() && last["seed"].is_u64(),
        "{last}"
    );

    // Without a limit there is a first line only if it does not wait for the end.
    let endless = ["-n", "-1", "--forget", "1", "--json=lines"];
    let mut child = spawn(&[&generate[..5], &endless].concat());
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    out.read_line(&mut first).expect("a line");
    assert!(line(&first)["id"].is_u64(), "{first}");
    interrupt(&child);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("UTF-8");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let last = line(rest.lines().last().expect("figures"));
    assert_eq!(last["stop"], "cancelled");
    // The first line, and of the rest all but the last.
    assert_eq!(last["generated_tokens"], rest.lines().count());
}

#[test]
fn generate_takes_what_hands_type_by_habit() {
    fn generate<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["generate", "-m", MODEL, "--device", "cpu"], more].concat()
    }
    // The newline that every editor and `echo` write is none of the text's.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "Ownership is\n").expect("written");
    let path = file.path().display().to_string();
    let expected = "Ownership is a set\n";
    let from_file = ironbridge(&generate(&["-f", &path, "-n", "2", "-q", "-t", "1"]));
    assert_eq!(stdout(&from_file), expected, "{}", stderr(&from_file));
    let from_pipe = ironbridge_reading("Ownership is\n", &generate(&["-n", "2", "-q"]));
    assert_eq!(stdout(&from_pipe), expected, "{}", stderr(&from_pipe));

    let endless = json(&generate(&[
        "-p",
        "Rust",
        "-n",
        "-1",
        "--context",
        "24",
        "--json",
    ]));
    let tokens = |key: &str| endless[key].as_u64().expect("a number");
    assert_eq!(tokens("prompt_tokens") + tokens("generated_tokens"), 24 + 1);
    let usage = ironbridge(&generate(&["-p", "Rust", "-n", "-2"]));
    assert_eq!(usage.status.code(), Some(2));
    let nothing = ironbridge(&generate(&["-p", "Rust", "-n", "0"]));
    assert!(
        stderr(&nothing).contains("nothing computed"),
        "{}",
        stderr(&nothing)
    );

    let prompt_tokens = |more: &[&str]| {
        let more = [&["-n", "1", "--json"], more].concat();
        json(&generate(&more))["prompt_tokens"]
            .as_u64()
            .expect("a number")
    };
    assert!(prompt_tokens(&["-p", "a</s>"]) > prompt_tokens(&["-p", "a</s>", "--parse-special"]));
    let escaped = json(&generate(&["-p", r"a\nb\x41", "-e", "-n", "1", "--json"]));
    assert_eq!(escaped["prompt"], "a\nbA");
}

#[test]
fn what_is_drawn_by_chance_is_another_each_time_and_says_its_seed() {
    let hot = |more: &[&str]| {
        let hot = [
            "generate", "-m", MODEL, "-p", "Rust", "-n", "16", "--temp", "4", "--top-k", "0",
            "--top-p", "1",
        ];
        json(&[&hot[..], &["--json"], more].concat())
    };
    let first = hot(&[]);
    for other in [&[][..], &["--seed", "-1"], &["--seed", "random"]] {
        let other = hot(other);
        assert_ne!(first["seed"], other["seed"]);
        assert_ne!(first["text"], other["text"]);
    }
    let again = hot(&["--seed", &first["seed"].to_string()]);
    assert_eq!(first["text"], again["text"]);
}

#[test]
fn a_rotation_may_be_other_than_the_files() {
    let perplexity = |more: &[&str]| {
        let mut all = vec!["perplexity", "-m", MODEL, "-f", "-", "--json", "-q"];
        all.extend(more);
        let text = "Ownership is a set of rules that govern how a Rust program manages memory.";
        let output = ironbridge_reading(text, &all);
        assert!(output.status.success(), "{}", stderr(&output));
        let found: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        (
            found["perplexity"].as_f64().expect("a number"),
            found["context"].clone(),
        )
    };
    let (plain, trained) = perplexity(&[]);
    assert_eq!(perplexity(&["--rope-scaling", "none"]).0, plain);
    let (linear, context) = perplexity(&["--rope-scaling", "linear", "--rope-scale", "4"]);
    assert!(linear > 2.0 * plain, "{linear} {plain}");
    assert_eq!(
        context.as_u64(),
        trained.as_u64().map(|trained| 4 * trained)
    );
    assert!(perplexity(&["--rope-freq-base", "20"]).0 > 1.5 * plain);
    let yarn = ["--rope-scaling", "yarn", "--rope-scale", "4"];
    let stretched = perplexity(&[&yarn[..], &["--context", "1024"]].concat());
    assert!(stretched.0 < linear && stretched.1 == 1024, "{stretched:?}");
    for wrong in [
        &["--rope-scaling", "linear"][..],
        &["--rope-scaling", "none", "--rope-scale", "2"],
    ] {
        assert_refused(
            &[&["generate", "-m", MODEL, "-p", "x"], wrong].concat(),
            &["--rope-scale"],
        );
    }
}

#[test]
fn tokenize_goes_both_ways() {
    let text = "Hello wörld </s> 🦀";
    let shown = stdout(&ironbridge(&["tokenize", "-m", MODEL, text]));
    assert!(shown.starts_with("     564  \"▁H\"\n"), "{shown}");
    let ids = stdout(&ironbridge(&["tokenize", "-m", MODEL, "--ids", text]));
    for tokens in [ids.clone(), format!("[{}]", ids.trim().replace(' ', ", "))] {
        let decoded = ironbridge_reading(&tokens, &["tokenize", "-m", MODEL, "--decode"]);
        assert_eq!(stdout(&decoded), format!("{text}\n"));
    }
    let special = stdout(&ironbridge(&[
        "tokenize",
        "-m",
        MODEL,
        "--special",
        "--parse-special",
        "--ids",
        "</s>",
    ]));
    assert_eq!(special, "1 2\n");
    let described = json(&["tokenize", "-m", MODEL, "--json", "</s>", "--parse-special"]);
    assert_eq!(
        described["tokens"][0],
        serde_json::json!({ "id": 2, "piece": "</s>", "kind": "control" })
    );
    assert_refused(
        &["tokenize", "-m", MODEL, "--decode", "1 x"],
        &["'x'", "--decode"],
    );
    assert_refused(
        &["tokenize", "-m", MODEL, "--decode", "1 99999"],
        &["99999", "2048"],
    );
    assert_refused(
        &["tokenize", "-m", MODEL, "--decode", "99999999999999"],
        &["too large"],
    );
}

#[test]
fn perplexity_knows_the_book_from_noise() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let book = "Ownership is a set of rules that govern how a Rust program manages memory. All programs have to \
        manage the way they use a computer's memory while running.";
    let noise: String = book.chars().rev().collect();
    let (book, noise) = (file("book", book), file("noise", &noise));
    let perplexity = |file: &str| {
        let json = json(&[
            "perplexity",
            "-m",
            MODEL,
            "-f",
            file,
            "--json",
            "--context",
            "24",
            "--stride",
            "8",
        ]);
        assert!(json["tokens"].as_u64().expect("a number") > 24);
        json["perplexity"].as_f64().expect("a number")
    };
    let (known, unknown) = (perplexity(&book), perplexity(&noise));
    assert!(known < 6.0 && unknown > 100.0, "{known} {unknown}");
    let text = stdout(&ironbridge(&["perplexity", "-m", MODEL, "-f", &book]));
    assert!(
        text.starts_with("perplexity  ") && text.contains(" ± "),
        "{text}"
    );

    assert_refused(
        &["perplexity", "-m", MODEL, "-f", "no/such/file"],
        &["no/such/file"],
    );
    assert_refused(
        &["perplexity", "-m", MODEL, "-f", &file("empty", "")],
        &["none to predict"],
    );
    let bytes = folder.path().join("bytes");
    std::fs::write(&bytes, b"fine \xff").expect("a file");
    assert_refused(
        &[
            "perplexity",
            "-m",
            MODEL,
            "-f",
            bytes.to_str().expect("a name"),
        ],
        &["bytes", "UTF-8", "byte 5"],
    );
}

#[test]
fn bench_measures_prompts_and_single_tokens_for_each_number_of_threads() {
    let quick = [
        "bench", "-m", MODEL, "-p", "3,9", "-n", "4", "-r", "1", "-t", "1,2", "-s", "3",
        "--behind", "7",
    ];
    let json = json(&[&quick[..], &["--json"]].concat());
    let runs = json["runs"].as_array().expect("an array");
    assert_eq!(runs.len(), 2);
    for (run, threads) in runs.iter().zip([1, 2]) {
        assert_eq!(run["threads"], threads);
        let rates = [
            &run["prompts"][0]["rate"],
            &run["prompts"][1]["rate"],
            &run["generation"]["rate"],
            &run["generation"]["fraction_of_bandwidth"],
            &run["read_bandwidth"],
            &run["together"]["rate"],
        ];
        assert!(rates.iter().all(|rate| rate.as_f64() > Some(0.0)), "{run}");
        for (measured, tokens) in [(&run["generation"], 1.0), (&run["together"], 3.0)] {
            let of_step = tokens / measured["rate"].as_f64().expect("a number");
            let idle = measured["idle_seconds"].as_f64().expect("a number");
            assert!((0.0..of_step).contains(&idle), "{run}");
        }
    }
    let text = stdout(&ironbridge(&quick));
    for pass in ["token", "step"] {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("of a {pass} ")));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert!(
            line.contains("while the device had nothing to do"),
            "{line}"
        );
    }
    assert!(text.contains("prompt 9") && text.contains("GB/s"), "{text}");
    assert!(text.contains("3 texts of 4"), "{text}");
    assert!(
        text.contains("1 thread reads") && text.contains("2 threads read"),
        "{text}"
    );
    let table = stdout(&ironbridge(&[&quick[..], &["--markdown"]].concat()));
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 2 + 2 * 4, "{table}");
    assert!(
        rows.iter().all(|row| row.matches('|').count() == 8),
        "{table}"
    );
    assert!(rows[4].contains("| 1 | generation 4 |"), "{table}");
    assert!(rows[5].contains("| 1 | 3 texts of 4 |"), "{table}");

    let none = ironbridge(&["bench", "-m", MODEL, "-p", "0"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("above 0"), "{}", stderr(&none));
    assert_refused(&["bench", "-m", MODEL, "-p", "100000"], &["100000", "512"]);
    assert_refused(
        &["bench", "-m", MODEL, "-p", "3", "--behind", "500"],
        &["564", "512"],
    );
    assert_refused(
        &["bench", "-m", "no/such/file", "-t", "1"],
        &["no/such/file"],
    );
}

/// The kernels are those of Metal source, and need a compiler, as the tests of Metal do.
#[test]
fn bench_explains_what_a_token_asks_memory_for() {
    let explain = ["bench", "-m", MODEL, "--explain", "--behind", "7"];
    let found = json(&[&explain[..], &["--json"]].concat());
    assert_eq!(found["measured"], false);
    let number = |value: &Value| value.as_u64().expect("a whole number");
    let remark = "A model, not a measurement";
    assert!(found["remark"].as_str().expect("text").contains(remark));
    let kernels = found["kernels"].as_array().expect("an array");
    for kernel in kernels {
        assert!(!kernel["kernel"].as_str().expect("a name").is_empty());
        assert!(number(&kernel["dispatches"]) > 0, "{kernel}");
        assert!(number(&kernel["bytes_written"]) > 0, "{kernel}");
        assert!(number(&kernel["threads"]) >= number(&kernel["threadgroups"]));
    }
    for key in ["dispatches", "bytes_read", "bytes_loaded", "barriers"] {
        let sum: u64 = kernels.iter().map(|kernel| number(&kernel[key])).sum();
        assert_eq!(sum, number(&found["total"][key]), "{key}");
    }
    // Every matrix is read, and activations and keys and values are little beside them.
    let (read, matrices) = (&found["total"]["bytes_read"], &found["matrix_bytes"]);
    let (read, matrices) = (number(read), number(matrices));
    assert!((matrices..matrices * 3 / 2).contains(&read), "{found}");
    let dispatches = number(&found["total"]["dispatches"]) as f64;
    let (layers, each) = (number(&found["layers"]), &found["dispatches_of_a_layer"]);
    let of_layers = layers as f64 * each.as_f64().expect("a number");
    assert!((1.0..=dispatches).contains(&of_layers), "{found}");
    assert!(each.as_f64().expect("a number") <= 8.0, "{found}");
    assert_eq!(found["gpus"].as_array().expect("an array").len(), 15);

    for form in [&explain[..], &[&explain[..], &["--markdown"]].concat()] {
        let text = stdout(&ironbridge(form));
        assert!(text.contains(remark) && text.contains("M4 Max"), "{text}");
        assert!(text.contains("dispatches a layer"), "{text}");
    }
    for other in [
        "--threads",
        "--sequences",
        "--prompt",
        "--tokens",
        "--device",
    ] {
        let refused = ironbridge(&[&explain[..], &[other, "1"]].concat());
        assert_eq!(refused.status.code(), Some(2));
        let said = stderr(&refused);
        assert!(said.contains("--explain") && said.contains(other), "{said}");
    }
}

#[test]
fn embed_gives_vectors_and_how_near_they_are() {
    let texts = [
        "ownership of memory",
        "ownership of values",
        "a loop over numbers",
    ];
    let json = json(&[&["embed", "-m", MODEL, "--json"][..], &texts].concat());
    let embeddings = json["embeddings"].as_array().expect("a list");
    assert_eq!(embeddings.len(), 3);
    let vector = embeddings[0]["vector"].as_array().expect("a list");
    assert_eq!(vector.len(), 256);
    let length: f64 = vector
        .iter()
        .map(|number| number.as_f64().expect("a number").powi(2))
        .sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");

    let near = ironbridge_reading(
        &texts.join("\n"),
        &[
            "embed",
            "-m",
            MODEL,
            "--similarity",
            "--pooling",
            "last",
            "--quiet",
        ],
    );
    assert_eq!(stderr(&near), "");
    let near = stdout(&near);
    let rows: Vec<Vec<f64>> = near
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map(|cell| cell.parse().expect("a number"))
                .collect()
        })
        .collect();
    assert_eq!((rows.len(), rows[0].len()), (3, 3));
    assert_eq!((rows[0][0], rows[0][1]), (1.0, rows[1][0]));
    assert!(rows[0][1] < 1.0);

    let none = ironbridge_reading("\n", &["embed", "-m", MODEL]);
    assert_eq!(stderr(&none), "ironbridge: there is no text to embed\n");
    let long = "word ".repeat(600);
    assert_refused(
        &["embed", "-m", MODEL, "-q", &long],
        &["context of 512", "--context"],
    );
}

#[test]
fn chat_answers_each_line_and_keeps_what_was_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = chat_model(folder.path());
    let chat = [
        "chat",
        "-m",
        &model,
        "-n",
        "8",
        "--seed",
        "0",
        "--system",
        "Be brief.",
    ];
    let output = ironbridge_reading(
        "What is ownership?\n/retry\nfirst \\\nsecond\n\n/nonsense\n/system Be long.\nWhy?",
        &[&chat[..], &["--json"]].concat(),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let answers: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), 4, "{answers:?}");
    let number = |answer: usize, name: &str| answers[answer][name].as_u64().expect("a number");
    assert_ne!(
        answers[0]["content"], answers[1]["content"],
        "retry draws anew"
    );
    assert_eq!(number(0, "cached_tokens"), 0);
    assert_eq!(number(1, "cached_tokens") + 1, number(0, "prompt_tokens"));
    assert!(number(2, "cached_tokens") >= number(1, "prompt_tokens"));
    assert!(
        number(3, "prompt_tokens") < number(2, "prompt_tokens"),
        "a new conversation"
    );
    assert!(
        stderr(&output).contains("/nonsense is no command"),
        "{}",
        stderr(&output)
    );

    // The same seed and the same messages.
    let text = || {
        stdout(&ironbridge_reading(
            "What is ownership?\n",
            &[&chat[..], &["-q"]].concat(),
        ))
    };
    assert_eq!(text(), text());
    assert_eq!(
        text().trim_end(),
        answers[0]["content"].as_str().expect("a text").trim_end()
    );
}

#[test]
fn chat_forgets_the_oldest_messages_and_refuses_what_cannot_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let template = template(folder.path());
    let chat = [
        "chat",
        "-m",
        MODEL,
        "--template",
        &template,
        "-n",
        "10",
        "--context",
        "64",
        "--json",
    ];
    let output = ironbridge_reading(&"Tell me more.\n".repeat(6), &chat);
    assert!(output.status.success(), "{}", stderr(&output));
    let answers = stdout(&output);
    let answers: Vec<Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), 6);
    assert_eq!(answers[0]["forgotten_messages"], 0);
    assert!(
        answers
            .iter()
            .any(|answer| answer["forgotten_messages"] == 2),
        "{answers:?}"
    );
    let output = ironbridge_reading(&"word ".repeat(100), &chat);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("context of 64"),
        "{}",
        stderr(&output)
    );

    assert_refused(&["chat", "-m", MODEL], &["no chat template", "--template"]);
    let wrong = folder.path().join("wrong.jinja");
    std::fs::write(&wrong, "{% for %}").expect("a file");
    let wrong = wrong.display().to_string();
    assert_refused(
        &["chat", "-m", MODEL, "--template", &wrong],
        &["template", "line 1"],
    );
    assert_refused(
        &["chat", "-m", MODEL, "--template", "no/such"],
        &["no/such"],
    );
}

/// SIGINT is what Ctrl-C sends.
#[test]
fn an_interrupt_stops_the_answer_and_not_the_chat() {
    let folder = tempfile::tempdir().expect("a folder");
    let template = template(folder.path());
    // The likeliest tokens go round in circles: the answer has no end.
    let endless = ["--temp", "0", "-n", "100000000"];
    let mut chat = spawn(
        &[
            &["chat", "-m", MODEL, "--template", &template][..],
            &endless,
        ]
        .concat(),
    );
    let mut stdin = chat.stdin.take().expect("a pipe");
    let mut out = chat.stdout.take().expect("a pipe");
    let mut remarks = BufReader::new(chat.stderr.take().expect("a pipe"));
    // A full pipe would stop the answer, too.
    let (read, has_read) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while out.read(&mut chunk).expect("it is open") > 0 {
            read.send(()).expect("the test goes on");
        }
    });
    for message in ["one\n", "two\n"] {
        stdin.write_all(message.as_bytes()).expect("it reads");
        has_read.recv().expect("an answer begins");
        interrupt(&chat);
        let mut remark = String::new();
        while !remark.contains("[stopped; ") {
            remark.clear();
            let length = remarks.read_line(&mut remark).expect("it is open");
            assert!(length > 0, "it ended");
        }
        while has_read.recv_timeout(Duration::from_millis(200)).is_ok() {}
    }
    stdin.write_all(b"/help\n").expect("it reads");
    let mut help = String::new();
    remarks.read_line(&mut help).expect("it is open");
    assert!(help.starts_with("/help"), "{help}");
    // Between answers it ends the program, as it ends every other.
    interrupt(&chat);
    let status = chat.wait().expect("it ends");
    assert!(!status.success());
    reader.join().expect("read to the end");
}

#[test]
fn an_interrupt_leaves_what_was_written_and_its_figures() {
    let mut child = spawn(&[
        "generate", "-m", MODEL, "-p", "Rust", "-n", "-1", "--forget", "1",
    ]);
    let out = child.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut [0; 64]).expect("it writes");
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("interrupted") && said.contains("generated"),
        "{said}"
    );
}

#[test]
fn mistakes_in_arguments_are_one_line_with_a_hint() {
    let usage = |arguments: &[&str]| {
        let output = ironbridge(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stdout(&output), "");
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with("ironbridge: "), "{text}");
        text
    };
    assert!(usage(&["generate", "--promt", "x"]).contains("'--prompt'"));
    assert!(usage(&["chat"]).contains("--model <FILE>; see `ironbridge chat --help`"));
    assert!(usage(&["chat", "-m", MODEL, "--seed", "x"]).contains("see `ironbridge chat --help`"));
    assert!(usage(&["chatt"]).contains("'chat'"));
    assert!(usage(&["embed", "-m", MODEL, "--pooling", "max"]).contains("mean, last"));
    assert!(usage(&["completions", "tcsh"]).contains("bash"));
}

#[test]
fn nothing_is_coloured_where_there_is_no_terminal() {
    for arguments in [
        &["devices"][..],
        &["--help"],
        &["chat", "-m", MODEL],
        &["generate", "-m", MODEL, "-p", "Rust", "-n", "2"],
    ] {
        let output = ironbridge(arguments);
        let all = [output.stdout, output.stderr].concat();
        assert!(!all.contains(&0x1b), "{}", String::from_utf8_lossy(&all));
    }
}

#[test]
fn what_nobody_reads_is_no_error() {
    for arguments in [
        &["devices", "--json"][..],
        &["man"],
        &["inspect", MODEL],
        &["completions", "bash"],
    ] {
        let mut child = spawn(arguments);
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn shells_and_readers_learn_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&ironbridge(&["completions", shell]));
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let syntax = Command::new("bash")
        .args(["-n", "-c", &stdout(&ironbridge(&["completions", "bash"]))])
        .output()
        .expect("bash");
    assert!(syntax.status.success(), "{}", stderr(&syntax));

    let page = stdout(&ironbridge(&["man"]));
    assert!(page.contains(".TH ironbridge 1"), "{page}");
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let written = ironbridge(&["man", "--out", pages.to_str().expect("a name")]);
    assert!(written.status.success(), "{}", stderr(&written));
    for command in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("ironbridge-{command}.1")));
        assert!(
            page.expect("a page").contains(".SH OPTIONS") || ["stress", "metal"].contains(&command)
        );
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
    let json = json(&["inspect", MODEL, "--json"]);
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
    let report = json(&["quantize", &source, &out, "q8_0", "--force", "--json"]);
    assert_eq!(report["tensors"][0]["type"], "Q8_0");
    assert!(report["bytes_after"].as_u64() < report["bytes_before"].as_u64());
    let usage = ironbridge(&["quantize", &source, &out, "Q3_X"]);
    assert!(stderr(&usage).contains("Q4_K_M"), "{}", stderr(&usage));

    let pattern = json(&[
        "quantize",
        &source,
        &out,
        "Q4_K_M",
        "--tensor",
        "*embd*=Q5_0",
        "--force",
        "--json",
    ]);
    assert_eq!(pattern["tensors"][0]["type"], "Q5_0");
    assert_eq!(pattern["tensors"][1]["type"], "Q6_K");
    assert_refused(
        &[
            "quantize",
            &source,
            &out,
            "Q8_0",
            "--tensor",
            "blk.*=F16",
            "--force",
        ],
        &["no tensor", "blk.*"],
    );
    // Rows that are no whole blocks of what was asked for.
    write_random_model_of(source.as_ref(), 96);
    let fallen = quantize(&["--force"]);
    assert!(fallen.status.success(), "{}", stderr(&fallen));
    for part in [
        "1 tensors are Q5_0 and not Q4_K",
        "1 tensors are Q8_0 and not Q6_K",
    ] {
        assert!(
            stderr(&fallen).contains(part),
            "{part}: {}",
            stderr(&fallen)
        );
    }
    let report = json(&["quantize", &source, &out, "q4_k", "--force", "--json"]);
    assert_eq!(report["not_as_asked"].as_array().expect("a list").len(), 2);
    assert_eq!(report["not_as_asked"][0]["asked"], "Q4_K");
}

#[test]
fn quantize_takes_an_importance_matrix() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (source, out, matrix) = (path("in.gguf"), path("out.gguf"), path("m.dat"));
    write_random_model_of(source.as_ref(), 256);
    // llama-imatrix's older form: one entry, computed once.
    let mut bytes = [1, 13].map(i32::to_le_bytes).concat();
    bytes.extend(b"output.weight");
    bytes.extend([1, 256].map(i32::to_le_bytes).concat());
    bytes.extend((0..256).flat_map(|it| (it as f32).to_le_bytes()));
    std::fs::write(&matrix, bytes).expect("written");
    let quantize = ["quantize", &source, &out, "q4_k", "--imatrix", &matrix];
    let output = ironbridge(&quantize);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = "the importance matrix says nothing about token_embd.weight";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let report = json(&[&quantize[..], &["--force", "--json"]].concat());
    assert_eq!(report["without_importance"][0], "token_embd.weight");
    assert_refused(
        &["quantize", &source, &out, "q4_k", "--imatrix", &source],
        &["in.gguf", "not imatrix"],
    );
}

/// Two matrices in F32.
fn write_random_model(path: &Path) {
    write_random_model_of(path, 256);
}

fn write_random_model_of(path: &Path, columns: u64) {
    let mut metadata = Metadata::default();
    metadata
        .set("general.architecture", "llama")
        .expect("a value");
    let tensors = ["token_embd.weight", "output.weight"].map(|name| NewTensor {
        name: name.into(),
        tensor_type: TensorType::F32,
        dimensions: vec![columns, 4],
    });
    let file = std::fs::File::create(path).expect("a file");
    let mut file = GgufWriter::new(file, &metadata, &tensors).expect("a header");
    for index in 0..2 * columns * 4 {
        let number = ((index * 37 % 101) as f32 - 50.0) / 64.0;
        file.write(&number.to_le_bytes()).expect("written");
    }
    file.finish().expect("a whole file");
}

#[test]
fn help_names_every_command() {
    let text = stdout(&ironbridge(&["--help"]));
    for command in COMMANDS {
        assert!(text.contains(&format!("\n  {command} ")), "{text}");
    }
    assert!(stdout(&ironbridge(&["generate", "--help"])).contains("--temp"));
    assert!(stdout(&ironbridge(&["stress", "qkv", "--help"])).contains("--kv-dim"));
}
