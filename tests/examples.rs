//! The examples run and print what they promise. `cargo test` builds them beside the tests.

use std::path::PathBuf;
use std::process::Command;

fn output(example: &str) -> String {
    // target/PROFILE/deps/this_test, target/PROFILE/examples/the_example
    let path: PathBuf = std::env::current_exe()
        .unwrap()
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples")
        .join(example);
    let run = Command::new(&path).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `cargo build --examples` builds it",
            path.display()
        )
    });
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
