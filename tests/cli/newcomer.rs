//! What someone meets who has no Rust yet: one line that says how to get it, which is the README's.
#![cfg(unix)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOW: &str = "curl -sSf https://sh.rustup.rs | sh";

fn find(program: &str) -> PathBuf {
    let path = env::var_os("PATH").expect("a path");
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} is on the path"))
}

#[test]
fn make_demo_without_rust_says_in_one_line_how_to_get_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = tempfile::tempdir().expect("a folder");
    for program in ["bash", "dirname", "sed"] {
        symlink(find(program), programs.path().join(program)).expect("a link");
    }
    let output = Command::new(find("make"))
        .arg("demo")
        .current_dir(root)
        .env_clear()
        .env("PATH", programs.path())
        .output()
        .expect("make starts");
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let text = String::from_utf8_lossy(&output.stderr);
    let (makes, ours): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("make: "));
    assert_eq!((makes.len(), ours.len()), (1, 1), "{text}");
    assert!(
        ours[0].contains("there is no Rust here") && ours[0].contains(HOW),
        "{text}"
    );

    let readme = fs::read_to_string(root.join("README.md")).expect("there is a README");
    let first_commands = readme.find("```sh").expect("it has commands");
    assert!(readme[..first_commands].contains(HOW));
}
