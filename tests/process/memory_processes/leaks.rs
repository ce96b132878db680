//! What a process says when it ends with something left, in Rust; capi/tests/programs.rs has C.

use crate::memory_processes::command;

crate::harness::cases! {
    a_leak_in_rust_is_named_at_exit,
    a_label_does_not_break_a_line,
    nothing_is_said_when_nothing_leaks,
    the_memory_check_prints_statistics,
    a_device_that_is_let_go_is_closed_however_soon_the_process_ends,
    every_change_of_memory_is_a_line_when_asked,
    the_trace_goes_to_a_file,
}

/// What the part wrote to stderr.
fn says(part: &str, variables: &[(&str, &str)]) -> String {
    let output = command(part, variables).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

fn a_leak_in_rust_is_named_at_exit() {
    let text = says("leaker", &[]);
    assert_contains(
        &text,
        &[
            "5.0 MiB in 2 buffers are still allocated when the process ended",
            "3.0 MiB  weights     \"forgotten weights\" made at tests/process/memory_processes/parts.rs:",
            "held by 1 handle reference",
            "2.0 MiB  KV cache    \"forgotten keys\" made at tests/process/memory_processes/parts.rs:",
            "device memory 6.0 MiB before the purge, 0 bytes after it, 6.0 MiB freed",
        ],
    );
}

fn a_label_does_not_break_a_line() {
    let variables = [("IRONBRIDGE_DEBUG_MEMORY", "1")];
    for variables in [&[][..], &variables[..]] {
        let text = says("strange", variables);
        assert_contains(&text, &[r#""two\nlines\x1b[2J\u009b\x7fä""#]);
        let of_the_label = text.lines().filter(|line| line.contains("lines"));
        assert_eq!(text.matches("two").count(), of_the_label.count(), "{text}");
        assert!(!text.contains(|it: char| it.is_control() && it != '\n'));
        assert!(
            text.lines().all(|line| !line.starts_with("lines")),
            "{text}"
        );
    }
}

fn nothing_is_said_when_nothing_leaks() {
    assert_eq!(says("tidy", &[]), "");
}

fn the_memory_check_prints_statistics() {
    let text = says("tidy", &[("IRONBRIDGE_MEMORY_CHECK", "1")]);
    assert_contains(
        &text,
        &[
            "ironbridge memory check:",
            "closed",
            "1 hits, 1 misses, 50.0 % reused",
            "2 made, 2 given back",
        ],
    );
    let text = says("leaker", &[("IRONBRIDGE_MEMORY_CHECK", "1")]);
    assert_contains(
        &text,
        &[
            "open when the process ended",
            "weights      3145728 bytes in 1",
        ],
    );
}

/// The thread that completes a submission lets the device go after it has woken who waits. In 1 of 30 processes the end
/// came first.
fn a_device_that_is_let_go_is_closed_however_soon_the_process_ends() {
    for _ in 0..100 {
        let text = says("tidy", &[("IRONBRIDGE_MEMORY_CHECK", "1")]);
        assert_contains(&text, &["closed"]);
    }
}

fn every_change_of_memory_is_a_line_when_asked() {
    let text = says("tidy", &[("IRONBRIDGE_DEBUG_MEMORY", "1")]);
    let events: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("ironbridge memory: ").expect(line))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(events, ["allocate", "idle", "reuse", "idle", "purge"]);
    assert_contains(
        &text,
        &[
            "5000 bytes, class 5120, references 1, device 0 -> 8192 \"temporary\"",
            "5120 bytes, class 5120, references 0, device 8192 -> 0 \"\"",
        ],
    );
}

fn the_trace_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    says("tidy", &[("IRONBRIDGE_MEM_TRACE", path.to_str().unwrap())]);
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert_contains(
        &text,
        &[
            " tests/process/memory_processes/parts.rs:",
            " fill bytes=4096 rss=",
            " device=8192 active=5120 pool=0 pool_buffers=0 handles=3 command_buffers=1 autoreleased=",
            " unpooled=0",
        ],
    );
}
