//! The C ABI as its users meet it: the header under strict compilers, the libraries' exported names, and the C and
//! Python programs of `examples/` against the libraries that cargo just built.

mod library;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use library::{libraries, shared_library};

const HEADERS: &str = concat!(
    include_str!("../../include/ironbridge.h"),
    include_str!("../../include/ironbridge_memory.h"),
    include_str!("../../include/ironbridge_llama.h")
);

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The output of a program that must succeed.
fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run `make setup`"));
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    assert!(
        status.success(),
        "{command:?} ended with {status}\n{stdout}\n{}",
        String::from_utf8_lossy(&stderr)
    );
    stdout
}

/// Those of `names` that are installed, with the newest versioned clang.
fn compilers(plain: &[&str], clang: &str) -> Vec<String> {
    let newest = (11..40)
        .rev()
        .map(|version| format!("{clang}-{version}"))
        .find(|name| is_installed(name));
    let plain = plain.iter().map(|name| name.to_string());
    plain
        .filter(|name| is_installed(name))
        .chain(newest)
        .collect()
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn header_compiles(compilers: &[String], language: &str, standard: &str) {
    assert!(
        compilers.len() >= 2,
        "gcc's and clang's {language} compilers are needed, found {compilers:?}: run `make setup`"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("includes_header");
    // Twice: the guard must hold.
    std::fs::write(
        &source,
        [
            "ironbridge_memory.h",
            "ironbridge_llama.h",
            "ironbridge.h",
            "ironbridge_monitor.h",
        ]
        .map(|header| format!("#include \"{header}\"\n").repeat(2))
        .concat(),
    )
    .expect("written");
    for compiler in compilers {
        run(Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}")])
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"])
            .arg("-I")
            .arg(repository().join("include"))
            .arg(&source));
    }
}

#[test]
fn header_is_clean_c11() {
    header_compiles(&compilers(&["gcc", "clang"], "clang"), "c", "c11");
}

#[test]
fn header_is_clean_cxx17() {
    header_compiles(&compilers(&["g++", "clang++"], "clang++"), "c++", "c++17");
}

/// Whether a C program compiles that defines IRON_STABLE_ONLY.
fn is_stable(program: &str) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("program.c");
    std::fs::write(&source, program).expect("written");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .arg("-DIRON_STABLE_ONLY")
        .arg("-I")
        .arg(repository().join("include"))
        .arg(&source);
    let output = compiler.output().expect("the compiler starts");
    output.status.success()
}

#[test]
fn experimental_declarations_can_be_left_out() {
    let readme = include_str!("../../README.md");
    let program = readme.split_once("```c\n").expect("it has a C program").1;
    assert!(is_stable(program.split_once("```").expect("an end").0));

    let experimental =
        "#include <ironbridge.h>\nint main(void) { return (int)iron_kernel_release(0); }\n";
    assert!(!is_stable(experimental));
    for header in ["ironbridge_memory.h", "ironbridge_llama.h"] {
        let program = format!("#include <{header}>\nint main(void) {{ return 0; }}\n");
        assert!(!is_stable(&program), "{header}");
    }
}

/// The names that the headers declare with IRON_API.
fn declared() -> BTreeSet<String> {
    let name_of = |declaration: &str| {
        let head = declaration.split('(').next()?;
        let start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')? + 1;
        Some(head[start..].to_string())
    };
    HEADERS
        .split("\nIRON_API ")
        .skip(1)
        .map(|declaration| name_of(declaration).expect("a declaration is TYPE NAME(…)"))
        .collect()
}

/// Metal's functions, constants and classes of the headers, which programs in Objective-C link with.
#[cfg(target_os = "linux")]
fn metal_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folder = repository().join("native/softmetal/headers/Metal");
    for header in std::fs::read_dir(folder).expect("a folder") {
        let text = std::fs::read_to_string(header.expect("an entry").path()).expect("a text");
        let first_word = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric());
            text[..end.unwrap_or(text.len())].to_string()
        };
        for line in text.lines() {
            if let Some(class) = line.strip_prefix("@interface ") {
                names.insert(format!("__objc_class_name_{}", first_word(class)));
            }
        }
        for declaration in text.split("\nMTL_EXTERN ").skip(1) {
            let name = declaration
                .split([' ', '*', '\n'])
                .find(|word| word.starts_with("MTL"));
            names.insert(first_word(name.expect("it declares a name")));
        }
    }
    // No program makes one: it gets an object with these methods from a device.
    assert!(names.remove("__objc_class_name_MTLComputePipelineReflection"));
    assert!(names.contains("MTLCopyAllDevices") && names.contains("MTLLibraryErrorDomain"));
    names
}

/// A Mac has Metal's names in a framework.
#[cfg(target_os = "macos")]
fn metal_names() -> BTreeSet<String> {
    BTreeSet::new()
}

/// The names that a shared library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    let underscore = if cfg!(target_os = "macos") {
        nm.arg("-gUj");
        "_"
    } else {
        nm.args(["-D", "--defined-only", "--format=just-symbols"]);
        ""
    };
    run(nm.arg(library))
        .lines()
        .map(|name| name.strip_prefix(underscore).unwrap_or(name).to_string())
        .collect()
}

#[test]
fn shared_library_exports_the_header_and_nothing_else() {
    let mut declared = declared();
    assert!(declared.contains("iron_version") && declared.len() > 40);
    declared.extend(metal_names());
    let exported = exported(&shared_library());
    let missing: Vec<_> = declared.difference(&exported).collect();
    let extra: Vec<_> = exported.difference(&declared).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "declared and not exported: {missing:?}\nexported and not declared: {extra:?}"
    );
}

/// Builds a C program against the shared library, after other libraries, with the strictness of the header's own test.
fn build(source: &Path, before: &[&str], out: &Path) -> PathBuf {
    let program = out.join("program");
    run(Command::new("cc")
        .args([
            "-O2",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
        ])
        .arg("-I")
        .arg(repository().join("include"))
        .arg(source)
        .args(before)
        .arg(shared_library())
        .arg(format!("-Wl,-rpath,{}", libraries().display()))
        .arg("-o")
        .arg(&program));
    program
}

/// The C program of the README, as a file in `folder`.
fn readme_program(folder: &Path) -> PathBuf {
    let readme = include_str!("../../README.md");
    let program = readme.split_once("```c\n").expect("it has a C program").1;
    let program = program.split_once("```").expect("a block of code ends").0;
    let source = folder.join("readme.c");
    std::fs::write(&source, program).expect("written");
    source
}

#[test]
fn program_in_the_readme_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = build(&readme_program(folder.path()), &[], folder.path());
    assert_eq!(run(&mut Command::new(program)), "2 1\n4 3\n");
}

/// What is left when a C program ends is named with the place in its source.
#[test]
fn a_leak_is_named_at_exit() {
    const PROGRAM: &str = r#"
#include <ironbridge_memory.h>
int main(void) {
  iron_device *device;
  iron_buffer *kept, *forgotten;
  iron_buffer_options options = {.size = sizeof options, .category = IRON_CATEGORY_SCRATCH, .label = "from C"};
  if (iron_device_open("cpu", NULL, &device)) return 1;
  if (IRON_HERE(iron_buffer_create(device, 100, NULL, &kept))) return 2;
  if (IRON_HERE(iron_buffer_create(device, 4 << 20, &options, &forgotten))) return 3;
  iron_buffer_release(kept);
  iron_device_release(device);
  return 0;
}
"#;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("leak.c");
    std::fs::write(&source, PROGRAM).expect("written");
    let program = build(&source, &[], folder.path());
    let output = Command::new(program).output().expect("the program starts");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    for part in [
        "4.0 MiB in 1 buffer is",
        "scratch     \"from C\" made at ",
        "leak.c:9",
        "4.0 MiB freed",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

/// GNUstep's `_Block_copy` copies nothing. A program that gets that one must hear about it and not crash.
#[test]
#[cfg(target_os = "linux")]
fn program_that_puts_gnustep_before_the_blocks_runtime_gets_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let gnustep = ["-Wl,--no-as-needed", "-lgnustep-base"];
    let program = build(&readme_program(folder.path()), &gnustep, folder.path());
    let output = Command::new(program).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("-lBlocksRuntime before -lgnustep-base"),
        "{text}"
    );
}

/// The lines that `examples/{c,python}` print for Q, K and V.
fn assert_three_right_projections(output: &str) {
    for name in ["Q  15 x 256", "K  15 x 32", "V  15 x 32"] {
        assert!(
            output
                .lines()
                .any(|line| line.starts_with(name) && line.ends_with("right")),
            "no right {name} in\n{output}"
        );
    }
}

#[test]
fn c_programs_run_against_the_static_and_the_shared_library() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let variable = |name: &str, folder: &Path| format!("{name}={}", folder.display());
    run(Command::new("make")
        .arg("-C")
        .arg(repository().join("examples/c"))
        .arg(variable("LIBRARY", libraries()))
        .arg(variable("OUT", out.path()))
        // A `make` above this test has flags and job tokens that are not for this one.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL"));
    for program in ["qkv-static", "qkv-shared"] {
        let output = run(&mut Command::new(out.path().join(program)));
        assert_three_right_projections(&output);
        assert!(output.ends_with("handles left over: 0\n"), "{output}");
    }
    // With native kernels, and with those from Metal source.
    for program in ["xor-static", "xor-shared", "sine-static", "sine-shared"] {
        for kernels in ["native", "msl"] {
            let output =
                run(Command::new(out.path().join(program)).env("IRONBRIDGE_SOFT_KERNELS", kernels));
            assert!(
                output.contains("learned\n") && !output.contains("NOT"),
                "{output}"
            );
            assert!(output.ends_with("handles left over: 0\n"), "{output}");
        }
    }
    for program in ["user_kernel-static", "user_kernel-shared"] {
        assert_eq!(
            run(&mut Command::new(out.path().join(program))),
            "counts of 100000 bytes in 16 bins: right\n\
             sums of 100000 bytes in 16 bins: right\n\
             handles left over: 0\n"
        );
    }
}

/// Runs a program of `examples/c` with the demo model, `arguments` and a text as its input.
fn run_with_model(program: &Path, arguments: &[&str], input: &str) -> Output {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new(program)
        .arg(repository().join("assets/tiny-rustbook-q8_0.gguf"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it has an input");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn c_programs_with_a_model_run() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let with_model = |name: &str, arguments: &[&str], input: &str| {
        let source = repository().join(format!("examples/c/{name}.c"));
        let source = std::fs::read_to_string(&source).expect("it can be read");
        assert!(source.lines().count() < 80, "{name}.c is a short program");
        let folder = out.path().join(name);
        std::fs::create_dir(&folder).expect("made");
        let program = build(
            &repository().join(format!("examples/c/{name}.c")),
            &[],
            &folder,
        );
        let Output {
            status,
            stdout,
            stderr,
        } = run_with_model(&program, arguments, input);
        let errors = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "{name}: {status}\n{errors}");
        (String::from_utf8(stdout).expect("UTF-8"), errors)
    };
    let (text, _) = with_model("generate", &["Ownership is", "8"], "");
    assert_eq!(text, "Ownership is a set of rules that govern\n");

    let template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
    let (text, known) = with_model("chat", &[template], "Ownership is\nBorrowing \"is\"\n");
    assert_eq!(text.lines().count(), text.matches('\n').count());
    assert!(text.lines().count() >= 2, "{text}");
    let known: Vec<&str> = known.lines().collect();
    assert_eq!(known.len(), 2, "{known:?}");
    assert!(known[0].ends_with(" 0 of them known") && !known[1].ends_with(" 0 of them known"));

    let (text, _) = with_model("embed", &["a reference", "a reference", "a thread"], "");
    let cosine = |line: &str| line[..6].parse::<f64>().expect("a cosine");
    let cosines: Vec<f64> = text.lines().map(cosine).collect();
    assert_eq!(
        (cosines.len(), cosines[0], cosines[1]),
        (3, 1.0, 1.0),
        "{text}"
    );
    assert!(cosines[2] < 0.9999, "{text}");

    let (text, _) = with_model("batch", &[], "");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(": Ownership is"))
        .collect();
    assert_eq!(lines.len(), 8, "{text}");
    // Seeds differ, and so do texts.
    let texts: BTreeSet<&str> = lines.iter().map(|line| &line[3..]).collect();
    assert!(texts.len() > 1, "{text}");

    // What is missing is an error with the library's sentence.
    let program = out.path().join("generate/program");
    let output = Command::new(program).arg("/no/such/model").output();
    let output = output.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors.contains("IRON_ERROR_FILE") && errors.contains("/no/such/model"),
        "{errors}"
    );
}

#[test]
fn cxx_program_runs_with_every_compiler() {
    let compilers = compilers(&["g++", "clang++"], "clang++");
    assert!(
        compilers.len() >= 2,
        "found {compilers:?}: run `make setup`"
    );
    for compiler in compilers {
        let out = tempfile::tempdir().expect("a temporary folder");
        let program = out.path().join("program");
        run(Command::new(&compiler)
            .args([
                "-std=c++17",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
            ])
            .arg("-I")
            .arg(repository().join("include"))
            .arg(repository().join("examples/cpp/generate.cpp"))
            .arg(shared_library())
            .arg(format!("-Wl,-rpath,{}", libraries().display()))
            .arg("-o")
            .arg(&program));
        let output = run_with_model(&program, &[], "");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = text.lines().collect();
        assert!(output.status.success(), "{compiler}: {text}");
        // One that a stop string ends, what the callback threw, and two of six tokens.
        let (first, thrown) = ("Ownership is a set of rules", "the reader has left");
        assert_eq!(lines[..2], [first, thrown], "{compiler}");
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[2].starts_with(first) && lines[3].starts_with("Ownership is "));

        let output = Command::new(&program).arg("/no/such/model").output();
        let errors = output.expect("it starts").stderr;
        assert!(String::from_utf8_lossy(&errors).starts_with("IRON_ERROR_FILE: iron_model_open: "));
    }
}

/// Swift imports the C headers by `include/module.modulemap`, as clang does.
#[test]
fn headers_are_clang_modules() {
    let clang = compilers(&[], "clang").pop();
    let clang = clang.unwrap_or_else(|| compilers(&["clang"], "none").remove(0));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let check = |name: &str, program: &str| {
        let source = folder.path().join(name);
        std::fs::write(&source, program).expect("written");
        let mut command = Command::new(&clang);
        command
            .args(["-fmodules", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
            .arg(format!(
                "-fmodules-cache-path={}",
                folder.path().join("cache").display()
            ))
            .arg("-I")
            .arg(repository().join("include"))
            .arg(source);
        command.output().expect("clang starts").status.success()
    };
    let uses = "int main(void) { return iron_model_release(0) == IRON_OK && iron_diagnose(0) == IRON_OK; }\n";
    let imports =
        "@import ironbridge.llama;\n@import ironbridge.memory;\n@import ironbridge.monitor;\n";
    assert!(check("all.m", &format!("{imports}{uses}")));
    // What is not imported is not there: the module map is what was read.
    assert!(!check(
        "none.m",
        &format!("@import ironbridge.none;\n{uses}")
    ));
}

#[test]
fn python_program_learns_a_sine() {
    let program = repository().join("examples/python/sine.py");
    let output = run(Command::new("python3").arg(program).arg(shared_library()));
    assert!(output.ends_with("\nlearned\n"), "{output}");
}

#[test]
fn python_program_runs_against_the_shared_library() {
    let program = repository().join("examples/python/qkv.py");
    assert_three_right_projections(&run(Command::new("python3")
        .arg(program)
        .arg(shared_library())));
}
