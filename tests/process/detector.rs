//! The bridge, built once more in a way that no user has. Its autorelease pools are compiled out: the stress that
//! passes with the bridge as it ships must fail. And it has the halves that are for a Mac otherwise: Metal devices that
//! the bridge knows nothing of, and function constants that the software device cannot read.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cargo_environment;

crate::harness::cases! {
    a_bridge_without_pools_fails_the_stress_that_the_real_one_passes,
    #[cfg(target_os = "linux")] // on a Mac every test runs these halves
    a4_on_a_mac_default_is_the_first_device_that_can_run_the_kernels,
    #[cfg(target_os = "linux")]
    a1_on_a_mac_the_software_device_makes_its_kernels,
}

const STRESS: [&str; 13] = [
    "stress",
    "qkv",
    "--device",
    "cpu",
    "--layers",
    "4",
    "--d-model",
    "64",
    "--kv-dim",
    "16",
    "--rounds",
    "200",
    "--warm-up=20",
];

fn stress(program: &Path) -> Output {
    Command::new(program)
        .args(STRESS)
        .output()
        .expect("the command line starts")
}

/// The command line over that bridge. The first to ask builds it.
fn built_for_tests() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // A target folder of its own: the two builds must not take each other's place. What cargo compiles on the way is
    // kept beside the tests', whose dependencies are the same where the command names the same packages and features.
    let folder = temporary.join("for-tests");
    let built = cargo_environment::of_no_package(&mut Command::new(env!("CARGO")))
        .args(["build", "--locked", "--workspace", "--features"])
        .arg("ironbridge/cli,ironbridge/pull,ironbridge/tracing")
        .args(["--bin", "ironbridge", "--test", "features"])
        // It runs for a second: what counts is how long it takes to build. No other build has these settings.
        .args(["--config", "profile.dev.package.ironbridge.opt-level = 0"])
        .args(["--config", "profile.dev.package.ironbridge.debug = 0"])
        .arg("--target-dir")
        .arg(&folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env(
            "CARGO_BUILD_BUILD_DIR",
            temporary.parent().expect("cargo's own folder"),
        )
        .env("IRONBRIDGE_TEST_WITHOUT_POOLS", "1")
        .env("IRONBRIDGE_TEST_AS_MAC", "1")
        .output()
        .expect("cargo starts");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    folder.join("debug/ironbridge")
}

fn a_bridge_without_pools_fails_the_stress_that_the_real_one_passes() {
    let real = stress(Path::new(env!("CARGO_BIN_EXE_ironbridge")));
    let text = String::from_utf8_lossy(&real.stdout);
    assert!(real.status.success(), "{text}");

    let without_pools = stress(&built_for_tests());
    let text = String::from_utf8_lossy(&without_pools.stdout);
    assert_eq!(without_pools.status.code(), Some(1), "{text}");
    // Apple's runtime does not tell.
    assert!(
        cfg!(target_os = "macos")
            || text.contains("objects were autoreleased with no pool in place"),
        "{text}"
    );
    assert!(
        text.contains("between the warm-up and the end"),
        "no object was found to stay alive:\n{text}"
    );
}

/// What it printed to each of its outputs, and whether it succeeded.
#[cfg(target_os = "linux")]
fn run(arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(built_for_tests())
        .args(arguments)
        .env_remove("IRONBRIDGE_DEVICE")
        .output()
        .expect("the command line starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.success(),
    )
}

#[cfg(target_os = "linux")]
fn generate(device: &str) -> (String, String, bool) {
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    );
    let prompt = ["generate", "-q", "-m", model, "-p", "Ownership is"];
    let rest = ["-n", "4", "--temp", "0", "--device", device];
    run(&[&prompt[..], &rest[..]].concat())
}

/// Of the two Metal devices that it has then, the system's default is an Intel GPU.
#[cfg(target_os = "linux")]
fn a4_on_a_mac_default_is_the_first_device_that_can_run_the_kernels() {
    let (devices, _, _) = run(&["devices"]);
    let lines: Vec<&str> = devices
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    assert!(
        lines[0].contains("metal") && lines[0].contains("Intel"),
        "{devices}"
    );
    assert!(
        lines[1].contains("metal") && lines[1].contains("Apple M3"),
        "{devices}"
    );
    assert!(lines[2].contains("cpu"), "{devices}");

    let (of_cpu, _, _) = generate("cpu");
    for device in ["default", "metal", "1"] {
        // Without pools it leaks, and says so.
        let (text, error, succeeded) = generate(device);
        assert!(succeeded && text == of_cpu, "{device}: {text}{error}");
    }
    let (_, error, succeeded) = generate("0");
    assert!(!succeeded && error.contains("Intel(R) UHD"), "{error}");
}

/// Its own kernels have no constants; reading none must not be an error.
#[cfg(target_os = "linux")]
fn a1_on_a_mac_the_software_device_makes_its_kernels() {
    let (text, error, succeeded) = generate("cpu");
    assert!(
        succeeded && text.starts_with("Ownership is a"),
        "{text}{error}"
    );
}
