//! The detector detects: the same stress that passes with the bridge as it ships fails when the bridge's autorelease
//! pools are compiled out.

use std::path::Path;
use std::process::{Command, Output};

crate::harness::cases! {
    a_bridge_without_pools_fails_the_stress_that_the_real_one_passes,
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

fn a_bridge_without_pools_fails_the_stress_that_the_real_one_passes() {
    let real = stress(Path::new(env!("CARGO_BIN_EXE_ironbridge")));
    let text = String::from_utf8_lossy(&real.stdout);
    assert!(real.status.success(), "{text}");

    // A target folder of its own: the two builds must not take each other's place.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-pools");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--features",
            "cli",
            "--bin",
            "ironbridge",
            "--config",
            "profile.dev.package.'*'.opt-level = 0",
            "--target-dir",
        ])
        .arg(&folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("IRONBRIDGE_TEST_WITHOUT_POOLS", "1")
        // It runs for a second: what counts is how long it takes to build.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("cargo starts");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );

    let without_pools = stress(&folder.join("debug/ironbridge"));
    let text = String::from_utf8_lossy(&without_pools.stdout);
    assert_eq!(without_pools.status.code(), Some(1), "{text}");
    assert!(
        text.contains("objects were autoreleased with no pool in place"),
        "{text}"
    );
    assert!(
        text.contains("between the warm-up and the end"),
        "no object was found to stay alive:\n{text}"
    );
}
