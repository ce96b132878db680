//! `ironbridge finetune`, from a text to an adapter that other commands take.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

fn ironbridge(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("IRONBRIDGE_DEVICE")
        .output()
        .expect("the command line starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

const STORY: [&str; 3] = [
    "The crab met the gopher at the edge of the sea and asked what it carried in its little bag.",
    "A gopher carries acorns, said the gopher, and every acorn has one owner, as you well know.",
    "Then lend me one, said the crab, and I shall give it back before the tide comes in tonight.",
];

fn story(folder: &Path) {
    let lines = STORY.map(|line| json!({ "text": line }).to_string());
    fs::write(folder.join("story.jsonl"), lines.join("\n")).unwrap();
    fs::write(folder.join("story.txt"), STORY.join("\n")).unwrap();
}

/// Short sequences and few steps.
fn finetune<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![
        "finetune",
        "-m",
        MODEL,
        "-f",
        "story.jsonl",
        "--sequence",
        "32",
    ];
    arguments.extend(["--batch", "1", "--learning-rate", "0.005"]);
    arguments.extend(more);
    arguments
}

#[test]
fn a_text_becomes_an_adapter_that_other_commands_take() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    story(folder);
    let output = ironbridge(
        folder,
        &finetune(&["--out", "story.gguf", "--steps", "16", "--hold-out", "0"]),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    for part in [
        "tokens to learn and 0 held out, 16 steps; ",
        "MiB of memory: ",
        "step 16 of 16: loss ",
        " tokens/s, 0 s left",
        "story.gguf: ",
    ] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert!(folder.join("story.checkpoint.safetensors").exists());
    let perplexity = |more: &[&str]| {
        let mut arguments = vec!["perplexity", "-m", MODEL, "-f", "story.txt", "--json"];
        arguments.extend(more);
        lines(&ironbridge(folder, &arguments))[0]["perplexity"]
            .as_f64()
            .unwrap()
    };
    let [before, half, after] = [
        &[][..],
        &["--lora", "story.gguf", "--lora-scale", "0.5"],
        &["--lora", "story.gguf"],
    ]
    .map(perplexity);
    assert!(half < 0.9 * before, "{before}, {half}, {after}");
    assert!(after < 0.6 * before, "{before}, {half}, {after}");
    let generate = [
        "generate",
        "-m",
        MODEL,
        "--lora",
        "story.gguf",
        "-p",
        "The crab",
        "-n",
        "4",
    ];
    let output = ironbridge(folder, &generate);
    assert!(output.status.success(), "{}", stderr(&output));

    // What is there is not replaced unasked, and is found out before any work.
    let again = |more: &[&str]| {
        let mut arguments = finetune(&["--out", "story.gguf", "--steps", "1"]);
        arguments.extend(more);
        ironbridge(folder, &arguments)
    };
    let output = again(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "ironbridge: story.gguf is there already; --force replaces it\n"
    );
    fs::remove_file(folder.join("story.gguf")).unwrap();
    let said = stderr(&again(&[]));
    assert!(said.contains("--resume goes on where it ends"), "{said}");
    assert!(again(&["--force", "--quiet"]).status.success());
}

#[test]
fn a_run_goes_on_with_the_same_numbers() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    story(folder);
    let run = |more: &[&str]| {
        let mut arguments = finetune(&["--json", "--hold-out", "20", "--warmup", "2"]);
        arguments.extend(more);
        ironbridge(folder, &arguments)
    };
    let of_steps = |lines: &[Value]| -> Vec<(u64, f64)> {
        let steps = lines.iter().filter(|line| !line["loss"].is_null());
        steps
            .map(|line| {
                (
                    line["step"].as_u64().unwrap(),
                    line["loss"].as_f64().unwrap(),
                )
            })
            .collect()
    };
    let whole = lines(&run(&[
        "--out",
        "whole.gguf",
        "--steps",
        "6",
        "--evaluate-every",
        "3",
    ]));
    assert!(whole[0]["memory_bytes"].as_u64().unwrap() > 1 << 20);
    let evaluated: Vec<u64> = whole
        .iter()
        .filter_map(|line| line["evaluated_after_step"].as_u64())
        .collect();
    assert_eq!(evaluated, [0, 3, 6]);
    let expected = of_steps(&whole);
    assert_eq!(expected.len(), 6);

    // A checkpoint of the fourth step is what an interrupted run leaves.
    let start = run(&[
        "--out",
        "cut.gguf",
        "--steps",
        "6",
        "--checkpoint-every",
        "4",
        "--checkpoint",
        "cut",
    ]);
    assert_eq!(of_steps(&lines(&start)), expected);
    fs::rename(
        folder.join("whole.checkpoint.safetensors"),
        folder.join("done"),
    )
    .unwrap();
    let done = run(&[
        "--out",
        "again.gguf",
        "--steps",
        "6",
        "--resume",
        "--checkpoint",
        "done",
    ]);
    assert_eq!(of_steps(&lines(&done)), []);
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(read("whole.gguf") == read("again.gguf") && read("whole.gguf") == read("cut.gguf"));

    let other = run(&[
        "--out",
        "other.gguf",
        "--resume",
        "--checkpoint",
        "done",
        "--seed",
        "1",
    ]);
    assert_eq!(other.status.code(), Some(1));
    let said = stderr(&other);
    assert!(
        said.contains("its seed is 0, and this run's is 1; without --resume a run starts anew"),
        "{said}"
    );
    let absent = run(&["--out", "other.gguf", "--resume", "--checkpoint", "absent"]);
    assert!(stderr(&absent).contains("cannot read the checkpoint absent"));
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_a_checkpoint_to_go_on_from() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    story(folder);
    let arguments = finetune(&["--json", "--steps", "40", "--hold-out", "0"]);
    let start = |out: &str, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ironbridge"))
            .args(&arguments)
            .args(["--out", out, "--checkpoint", "stopped"])
            .args(more)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command line starts")
    };
    let mut child = start("first.gguf", &[]);
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut steps = output.lines().map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["step"].as_u64()
    });
    let third = steps.find(|step| *step == Some(3));
    assert!(third.is_some());
    // SAFETY: the process is this one's child and has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let last = steps.flatten().last().unwrap_or(3);
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    assert!(last < 40, "{last}");
    assert!(!folder.join("first.gguf").exists());
    let rest = lines(
        &start("first.gguf", &["--resume"])
            .wait_with_output()
            .unwrap(),
    );
    let first = rest.iter().find_map(|line| line["step"].as_u64());
    assert_eq!(first, Some(last + 1));
    assert!(folder.join("first.gguf").exists());
}

#[test]
fn what_is_wrong_is_one_line() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    story(folder);
    let said = |text: &str, more: &[&str]| {
        fs::write(folder.join("story.jsonl"), text).unwrap();
        let mut arguments = finetune(&["--out", "out.gguf"]);
        arguments.extend(more);
        let output = ironbridge(folder, &arguments);
        assert!(!output.status.success());
        assert!(output.stdout.is_empty());
        assert!(!folder.join("out.gguf").exists());
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let line = json!({ "text": "a crab" });
    assert_eq!(
        said("", &[]),
        "ironbridge: story.jsonl: there is no text to learn\n"
    );
    assert_eq!(
        said(&format!("{line}\n\n{line}"), &[]),
        "ironbridge: story.jsonl: line 2: it is empty\n"
    );
    let broken = said(&format!("{line}\n{{\"text\": \"a"), &[]);
    assert!(
        broken.starts_with("ironbridge: story.jsonl: line 2: EOF while parsing a string"),
        "{broken}"
    );
    let short = said(&line.to_string(), &[]);
    assert!(
        short.contains("fill no sequence of 32")
            && short.ends_with("; --sequence N makes them shorter\n"),
        "{short}"
    );
    let enough = json!({ "text": STORY.concat() }).to_string();
    let rank = said(&enough, &["--lora-rank", "0"]);
    assert!(rank.contains("rank is 0, and must be from 1 to "), "{rank}");
    let target = said(&enough, &["--lora-targets", "attn_q,attn_x"]);
    assert!(
        target.contains("'attn_x'") && target.contains("ffn_down"),
        "{target}"
    );
    let none = said(&enough, &["--model", "absent.gguf"]);
    assert!(none.contains("--model"), "{none}");
}
