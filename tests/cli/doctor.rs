//! `ironbridge doctor`: what it finds, and its verdict.

use std::process::{Command, Output};

use ironbridge::diagnostics::SoftwareDevice;
use serde_json::Value;

fn doctor(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .arg("doctor")
        .args(arguments)
        .env_remove("IRONBRIDGE_DEVICE")
        .envs(variables.iter().copied())
        .output()
        .expect("the command line starts")
}

#[test]
fn a_healthy_machine_is_told_so() {
    let output = doctor(&["--seconds", "1", "--device", "cpu"], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for part in [
        "system ",
        "processor ",
        "memory ",
        "runtime ",
        "built by ",
        "compiler ",
        "buffers up to",
        "values compared",
        "a kernel from source: compiled, right",
        "verdict     all is well",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// The table that chooses kernels is printed as a whole, in its order.
#[test]
fn the_choice_of_kernels_is_printed() {
    let output = doctor(&["--seconds", "0", "--device", "cpu"], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    let output = doctor(&["--seconds", "0", "--device", "cpu", "--json"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let software = SoftwareDevice::find();
    let printed = text
        .lines()
        .skip_while(|line| !line.starts_with("products "));
    let printed: Vec<_> = printed.take(software.kernels.len()).collect();
    let objects = report["software"]["kernels"].as_array().expect("an array");
    assert_eq!(printed.len(), software.kernels.len(), "{text}");
    assert_eq!(objects.len(), software.kernels.len());
    for ((rule, line), object) in software.kernels.iter().zip(printed).zip(objects) {
        for part in [&rule.b, &rule.rows, rule.strategy, rule.needs] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        assert_eq!(line.contains("not here"), !rule.used, "{line}");
        assert_eq!(object["b"], rule.b);
        assert_eq!(object["rows"], rule.rows);
        assert_eq!(object["strategy"], rule.strategy);
        assert_eq!(object["used"], rule.used);
    }
}

#[test]
fn json_has_the_same() {
    let output = doctor(&["--seconds", "1", "--device", "cpu", "--json"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{report:#}");
    assert!(report["machine"]["memory_bytes"].as_u64() > Some(1 << 28));
    assert!(
        report["devices"]
            .as_array()
            .is_some_and(|devices| !devices.is_empty())
    );
    assert!(report["test"]["values"].as_u64() > Some(1000));
    assert_eq!(report["test"]["kernel_from_source"], true);
    assert!(report["built_with"]["compiler"]["version"].is_string());
    assert_eq!(report["problems"], Value::Array(vec![]));
}

/// The folders are this system's, and have what they are named for.
#[cfg(target_os = "linux")]
#[test]
fn what_the_build_found_is_where_it_says() {
    let output = doctor(&["--seconds", "0", "--json"], &[]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let built_with = &report["built_with"];
    let place = |value: &Value| std::path::PathBuf::from(value.as_str().expect("a path"));
    let compiler = place(&built_with["compiler"]["path"]);
    let foundation = place(&built_with["gnustep"]["include"]).join("Foundation/Foundation.h");
    let libobjc = place(&built_with["libobjc"]["folder"]).join("libobjc.so");
    for path in [compiler, foundation, libobjc] {
        assert!(path.exists(), "{} in {built_with:#}", path.display());
    }
    for part in ["gnustep", "libobjc"] {
        let version = built_with[part]["version"].as_str().expect("a version");
        assert!(
            version.starts_with(|first: char| first.is_ascii_digit()),
            "{version}"
        );
    }
    let text = doctor(&["--seconds", "0"], &[]);
    let text = String::from_utf8_lossy(&text.stdout);
    for part in ["GNUstep ", "found by", "libobjc "] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn a_missing_compiler_is_named_and_no_problem() {
    let variables = [("IRONBRIDGE_CLANG", "/no/such/clang")];
    let output = doctor(&["--seconds", "0"], &variables);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("compiler    none: IRONBRIDGE_CLANG=/no/such/clang"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_decides_the_verdict() {
    let output = doctor(&["--seconds", "0"], &[("IRONBRIDGE_THREADS", "many")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("PROBLEM     IRONBRIDGE_THREADS"), "{text}");
}
