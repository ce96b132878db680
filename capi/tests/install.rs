//! `scripts/install.sh` into an empty prefix, and programs that know nothing but it: through pkg-config and through
//! CMake, against the shared and the static library.

mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use library::{ROOT, libraries, shared_library};

/// The output of a program that must succeed.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run `make setup`"));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}\n{stdout}\n{stderr}");
    stdout
}

fn install(prefix: &Path) {
    run(Command::new(Path::new(ROOT).join("scripts/install.sh"))
        .arg(prefix)
        .arg(libraries()));
}

/// A C program of `examples/c`, with the demo model where it takes one.
fn example(name: &str) -> PathBuf {
    Path::new(ROOT).join("examples/c").join(name)
}

fn writes(program: &Path) {
    let model = Path::new(ROOT).join("assets/tiny-rustbook-q8_0.gguf");
    let text = run(Command::new(program).arg(model).args(["Ownership is", "4"]));
    assert_eq!(text, "Ownership is a set of rules\n");
}

/// What pkg-config says of a package that is installed in `prefix`.
fn pkg_config(prefix: &Path, package: &str, arguments: &[&str]) -> Vec<String> {
    let text = run(Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .args(arguments)
        .arg(package));
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn programs_build_through_pkg_config() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let prefix = folder.path().join("prefix");
    install(&prefix);
    let flags = |arguments: &[&str]| pkg_config(&prefix, "ironbridge", arguments);
    assert_eq!(flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let (shared, linked) = (folder.path().join("shared"), folder.path().join("static"));
    run(Command::new("cc")
        .arg(example("generate.c"))
        .args(flags(&["--cflags", "--libs"]))
        .arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()))
        .arg("-o")
        .arg(&shared));
    writes(&shared);

    // The shared library is not there: the static one has all of it.
    fs::remove_file(prefix.join(format!("lib/libironbridge{}", std::env::consts::DLL_SUFFIX)))
        .expect("removed");
    run(Command::new("cc")
        .arg(example("generate.c"))
        .args(flags(&["--static", "--cflags", "--libs"]))
        .arg("-o")
        .arg(&linked));
    writes(&linked);
}

/// The newest clang, which alone compiles blocks.
#[cfg(target_os = "linux")]
fn clang() -> String {
    let newest = (11..40).rev().map(|version| format!("clang-{version}"));
    newest
        .chain([String::from("clang")])
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .expect("a clang; run `make setup`")
}

/// Metal's names are those of a Mac, and the program knows nothing of ironbridge.
#[test]
#[cfg(target_os = "linux")]
fn objective_c_programs_build_through_pkg_config() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let prefix = folder.path().join("prefix");
    install(&prefix);
    let flags = |arguments: &[&str]| pkg_config(&prefix, "softmetal", arguments);
    let build = |source: &Path, flags: Vec<String>| -> PathBuf {
        let program = folder.path().join("program");
        run(Command::new(clang())
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(source)
            .args(flags)
            .arg("-o")
            .arg(&program));
        program
    };
    let start = |program: &Path, device: &str| -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", prefix.join("lib"))
            .env("IRONBRIDGE_DEVICE", device);
        command
    };
    let source = Path::new(ROOT).join("examples/objc/add_arrays.m");
    let added = build(&source, flags(&["--cflags", "--libs"]));
    let text = run(&mut start(&added, ""));
    assert!(text.starts_with("1000 sums are right on "), "{text}");
    let text = run(&mut start(&added, "cpu:gpu=intel"));
    assert!(text.contains("Intel"), "{text}");
    let output = start(&added, "abacus").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("device \"abacus\"") && said.contains("there is no Metal device"),
        "{said}"
    );

    // metal-cpp's way: every call is an objc_msgSend, which GCC's runtime lacks.
    let sends = Path::new(ROOT).join("examples/cpp/add_arrays.cpp");
    let mut cpp = vec![String::from("-std=c++17"), String::from("-lstdc++")];
    cpp.extend(pkg_config(
        &prefix,
        "softmetal-cpp",
        &["--cflags", "--libs"],
    ));
    let added = build(&sends, cpp);
    let text = run(&mut start(&added, ""));
    assert!(text.starts_with("1000 sums are right on "), "{text}");
    assert!(
        text.ends_with("threadgroups of up to 1024 threads\n"),
        "{text}"
    );

    let ours = Path::new(ROOT).join("capi/tests/objective_c");
    let devices = build(&ours.join("devices.m"), flags(&["--cflags", "--libs"]));
    for device in ["", "cpu", "0", "cpu:strict=apple"] {
        assert_eq!(run(&mut start(&devices, device)), "1 same\n", "{device}");
    }
    assert_eq!(run(&mut start(&devices, "abacus")), "0 same\n");

    let indirect = build(&ours.join("indirect.m"), flags(&["--cflags", "--libs"]));
    let failed = start(&indirect, "cpu").output().expect("it starts");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        !failed.status.success() && said.contains("default.metal"),
        "{said}"
    );
    fs::copy(
        ours.join("default.metal"),
        folder.path().join("default.metal"),
    )
    .expect("copied");
    let text = run(&mut start(&indirect, "cpu"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[..2] == ["0", "48"], "{text}");
    assert!(
        lines[2].starts_with("48 ")
            && lines[2].contains("its indirect arguments [1073741824, 2, 1]"),
        "{text}"
    );

    // The static library has the classes, too.
    fs::remove_file(prefix.join("lib/libironbridge.so")).expect("removed");
    let linked = build(&source, flags(&["--static", "--cflags", "--libs"]));
    let text = run(Command::new(linked).env("IRONBRIDGE_DEVICE", "cpu"));
    assert!(text.starts_with("1000 sums are right on "), "{text}");
}

#[test]
fn programs_build_through_cmake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let prefix = folder.path().join("prefix");
    install(&prefix);
    let project = folder.path().join("project");
    fs::create_dir(&project).expect("made");
    let program = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(writer C)\nfind_package(ironbridge 0.1 REQUIRED)\n\
         foreach(way ironbridge static)\n  add_executable(${{way}} {})\n  target_link_libraries(${{way}} \
         ironbridge::${{way}})\nendforeach()\n",
        example("generate.c").display()
    );
    fs::write(project.join("CMakeLists.txt"), program).expect("written");
    let build = folder.path().join("build");
    run(Command::new("cmake")
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .arg("-S")
        .arg(&project)
        .arg("-B")
        .arg(&build));
    run(Command::new("cmake").arg("--build").arg(&build));
    writes(&build.join("ironbridge"));
    writes(&build.join("static"));

    // A newer version than there is is refused.
    fs::write(
        project.join("CMakeLists.txt"),
        "cmake_minimum_required(VERSION 3.13)\nproject(writer C)\nfind_package(ironbridge 99.0 REQUIRED)\n",
    )
    .expect("written");
    let mut newer = Command::new("cmake");
    newer.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    newer
        .arg("-S")
        .arg(&project)
        .arg("-B")
        .arg(folder.path().join("newer"));
    assert!(!newer.output().expect("cmake starts").status.success());
}

#[test]
#[cfg(target_os = "linux")]
fn the_shared_library_has_its_name_and_its_links() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    install(folder.path());
    let library = folder.path().join("lib");
    let link = |name: &str| fs::read_link(library.join(name)).expect("a link");
    assert_eq!(link("libironbridge.so"), Path::new("libironbridge.so.0"));
    assert_eq!(
        link("libironbridge.so.0"),
        Path::new("libironbridge.so.0.1.0")
    );
    let dynamic = run(Command::new("readelf")
        .arg("-d")
        .arg(library.join("libironbridge.so")));
    assert!(
        dynamic.contains("Library soname: [libironbridge.so.0]"),
        "{dynamic}"
    );
}

/// Every symbol is a function of the headers and has a version, so that two versions of the library can be in one
/// process, and a program that needs a newer one is told so when it starts.
#[test]
#[cfg(target_os = "linux")]
fn the_symbols_are_those_of_the_headers_and_have_a_version() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    install(folder.path());
    let symbols = |arguments: &[&str], library: &Path| -> BTreeSet<String> {
        let mut nm = Command::new("nm");
        nm.args(["-D", "--format=just-symbols"]).args(arguments);
        run(nm.arg(library)).lines().map(String::from).collect()
    };
    let installed = symbols(
        &["--defined-only"],
        &folder.path().join("lib/libironbridge.so"),
    );
    // tests/programs.rs compares these with the headers.
    let expected: BTreeSet<String> = symbols(&["--defined-only"], &shared_library())
        .iter()
        .map(|name| format!("{name}@@IRONBRIDGE_0"))
        .chain([String::from("IRONBRIDGE_0")])
        .collect();
    assert!(expected.contains("iron_model_open@@IRONBRIDGE_0"));
    assert_eq!(installed, expected);

    let program = folder.path().join("program");
    run(Command::new("cc")
        .arg(example("generate.c"))
        .arg(format!(
            "-I{}",
            folder.path().join("include/ironbridge").display()
        ))
        .arg(format!("-L{}", folder.path().join("lib").display()))
        .args(["-lironbridge", "-o"])
        .arg(&program));
    let needed = symbols(&["--undefined-only"], &program);
    assert!(
        needed.contains("iron_model_open@IRONBRIDGE_0"),
        "{needed:?}"
    );
}

#[test]
fn a_relative_prefix_is_refused() {
    let output = Command::new(Path::new(ROOT).join("scripts/install.sh"))
        .arg("somewhere")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
