//! NVIDIA's GPUs on the command line, with a driver that computes nothing (`benches/idle_gpu.c`).

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/idle_gpu.c");
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

/// A folder with the driver.
fn driver() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O2", "-shared", "-fPIC", "-o"])
        .arg(folder.path().join("libcuda.so.1"))
        .arg(SOURCE)
        .status()
        .expect("there is a C compiler");
    assert!(compiled.success());
    folder
}

fn ironbridge(driver: &Path, capability: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args(arguments)
        .env_remove("IRONBRIDGE_DEVICE")
        .env("LD_LIBRARY_PATH", driver)
        .env("IDLE_GPU_CAPABILITY", capability)
        .output()
        .expect("the command line starts")
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The device on which a model is read when nobody names one.
fn default_device(driver: &Path, capability: &str) -> String {
    let arguments = [
        "bench", "-m", MODEL, "--prompt", "2", "--tokens", "1", "--rounds", "1", "--json",
    ];
    let report = json(&ironbridge(driver, capability, &arguments));
    String::from(report["runs"][0]["device"].as_str().expect("a name"))
}

#[test]
fn a_gpu_is_the_default_and_one_that_cannot_be_opened_is_passed_over() {
    let driver = driver();
    let name = default_device(driver.path(), "9");
    assert!(name.contains("GPU that computes nothing"), "{name}");
    let name = default_device(driver.path(), "7");
    assert!(!name.contains("GPU"), "{name}");

    let named = ["generate", "-m", MODEL, "-n", "1", "--device", "nvidia"];
    let refused = ironbridge(driver.path(), "7", &named);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(errors.contains("compute capability"), "{errors}");
}

#[test]
fn gpus_are_listed_behind_the_processor() {
    let driver = driver();
    let devices = json(&ironbridge(driver.path(), "9", &["devices", "--json"]));
    let selectors = devices.as_array().expect("a list").iter();
    let selectors: Vec<_> = selectors.map(|device| &device["selector"]).collect();
    assert_eq!(selectors, ["cpu", "nvidia:0"]);
}
