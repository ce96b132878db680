//! The examples run and print what they promise. `cargo test` builds them beside the tests.

use std::path::PathBuf;
use std::process::{Command, Output};

fn command(example: &str) -> Command {
    // target/PROFILE/deps/this_test, target/PROFILE/examples/the_example
    let path: PathBuf = std::env::current_exe()
        .unwrap()
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples")
        .join(example);
    Command::new(path)
}

fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo build --examples` builds it"))
}

fn output(example: &str) -> String {
    let run = run(&mut command(example));
    assert!(
        run.status.success(),
        "{example}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn quickstart_multiplies() {
    let printed = output("quickstart");
    assert!(printed.ends_with("[4.0, 5.0]\n[10.0, 11.0]\n"), "{printed}");
}

#[test]
fn projections_come_out_as_the_weights_say() {
    let printed = output("projections");
    assert!(
        printed.contains("the first keys of the first token: [1.0, 2.0, 3.0, 4.0]"),
        "{printed}"
    );
    for line in ["Q alone", "K alone", "V alone", "in 4 weights"] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn a_kernel_from_metal_source_adds_up_rows() {
    assert_eq!(
        output("user_kernel"),
        "half of each row's sum: [0.0, 50.0, 100.0]\n"
    );
}

/// On the CPU with native kernels, and with those from Metal source.
fn outputs_of_training(example: &str, arguments: &[&std::path::Path]) -> [String; 2] {
    ["native", "msl"].map(|kernels| {
        let run = run(command(example)
            .args(arguments)
            .env("IRONBRIDGE_DEVICE", "cpu")
            .env("IRONBRIDGE_SOFT_KERNELS", kernels));
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{example}, {kernels}: {said}");
        String::from_utf8(run.stdout).unwrap()
    })
}

#[test]
fn exclusive_or_is_learned() {
    for printed in outputs_of_training("xor", &[]) {
        assert!(printed.contains("step  600  loss 0.00"), "{printed}");
        let answers = printed.lines().last().unwrap();
        assert!(answers.starts_with("answers [0.0"), "{printed}");
    }
}

#[test]
fn a_sine_is_learned_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sine.svg");
    for printed in outputs_of_training("sine", &[file.as_path()]) {
        assert!(
            printed.contains("activations and gradients share"),
            "{printed}"
        );
    }
    let drawing = std::fs::read_to_string(&file).unwrap();
    assert_eq!(drawing.matches("<polyline").count(), 2, "{drawing}");
    assert!(drawing.trim_end().ends_with("</svg>"));
}

#[test]
fn without_a_compiler_metal_source_says_what_to_install_and_the_rest_works() {
    let nothing = tempfile::tempdir().unwrap();
    let bare = |example| {
        run(command(example)
            .env("PATH", nothing.path())
            .env("XDG_CACHE_HOME", nothing.path())
            .env("IRONBRIDGE_CLANG", "")
            .env("IRONBRIDGE_DEVICE", "cpu")
            .env("IRONBRIDGE_SOFT_KERNELS", "native"))
    };
    let native = bare("quickstart");
    assert!(native.status.success(), "{native:?}");
    let source = bare("user_kernel");
    let said = String::from_utf8_lossy(&source.stderr);
    assert!(!source.status.success());
    for part in ["needs clang 16 or newer", "apt install clang"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn generate_goes_on_from_the_prompt() {
    let text =
        "Ownership is a set of rules that govern how a Rust program manages memory. All programs";
    assert!(output("generate").starts_with(text));
}

#[test]
fn sessions_share_the_weights_and_give_their_memory_back() {
    let printed = output("sessions");
    assert!(
        printed.contains("\nOwnership is a set of rules that"),
        "{printed}"
    );
    let figures: Vec<Vec<u64>> = printed
        .lines()
        .filter(|line| line.contains(" weights "))
        .map(|line| {
            line.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect()
        })
        .collect();
    let [alone, together, dropped, nothing] = &figures[..] else {
        panic!("{printed}")
    };
    assert_eq!(alone[0], together[0], "the weights are there once");
    // Three sessions, keys and values, layers, positions, heads, elements, bytes.
    assert_eq!(together[1], 3 * 2 * 6 * 128 * 4 * 32 * 2);
    assert_eq!((dropped, &nothing[..]), (alone, &[0, 0, 0][..]));
}

#[test]
fn the_server_streams_and_stops_for_whoever_hangs_up() {
    let printed = output("serve");
    for line in [
        "Ownership is a set of rules that govern how a Rust program manages memory.",
        "Unsafe Rust exists because, by nature, static analysis is conservative.",
        "\"Macros\": Cancelled\n",
        "\"Ownership is\": Limit\n",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}
