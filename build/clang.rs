//! Finds a clang that compiles our Objective-C, and knows its flags.
//!
//! For another Linux than the one that builds, `IRONBRIDGE_SYSROOT` names the folder with that system's headers and
//! libraries.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::gnustep::{GnuStep, Runtime, System};

/// What every native file needs. A file that uses it and compiles is the proof that a compiler can do the job.
const PROBE: &str = r#"
#import <Foundation/Foundation.h>
#include <stdatomic.h>
int probe(void (^block)(void)) {
  @autoreleasepool { @try { block(); } @catch (NSException *raised) { return (int)[[raised reason] length]; } }
  return 0;
}
"#;

const SYSROOT_VARIABLE: &str = "IRONBRIDGE_SYSROOT";

/// Continuous integration accepts no warning.
pub fn warnings_are_errors() -> bool {
    const VARIABLE: &str = "IRONBRIDGE_WARNINGS_AS_ERRORS";
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    env::var_os(VARIABLE).is_some()
}

pub struct Clang {
    path: PathBuf,
    /// The first line of `clang --version`.
    version: String,
    flags: Vec<String>,
    /// Absent on a Mac, where Foundation and the runtime are the system's.
    gnustep: Option<(GnuStep, Runtime)>,
}

impl Clang {
    /// The clang named by `CLANG`, else by `CC`, else the newest one on the path, that compiles [`PROBE`].
    pub fn find(out: &Path, target: &str) -> Result<Clang, String> {
        for variable in ["CLANG", "CC", SYSROOT_VARIABLE] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        let mut packages = MAC_PACKAGES.to_owned();
        let (gnustep, flags) = match target {
            "linux" => {
                let system = system();
                let gnustep = (GnuStep::find(&system)?, Runtime::find(&system)?);
                packages = system.packages();
                let flags = gnustep_flags(out, &gnustep.0, &gnustep.1)?;
                (Some(gnustep), flags)
            }
            _ => (None, MAC_FLAGS.map(String::from).to_vec()),
        };
        let probe = out.join("probe.m");
        fs::write(&probe, PROBE).map_err(|error| format!("{}: {error}", probe.display()))?;

        let mut tried = String::new();
        for path in candidates()? {
            let result = Command::new(&path)
                .args(&flags)
                .args(["-fsyntax-only", "-Werror=implicit-function-declaration"])
                .arg(&probe)
                .output();
            match result {
                Ok(output) if output.status.success() => {
                    return Ok(Clang {
                        version: first_line(&path, "--version").unwrap_or_default(),
                        path,
                        flags,
                        gnustep,
                    });
                }
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    let first = text
                        .lines()
                        .find(|line| line.contains("error"))
                        .unwrap_or("failed");
                    tried += &format!("\n  {}: {first}", path.display());
                }
                Err(error) => tried += &format!("\n  {}: {error}", path.display()),
            }
        }
        if tried.is_empty() {
            tried = "\n  no clang and no clang-N is on the path".into();
        }
        Err(format!(
            "no clang here compiles Objective-C with blocks. Tried:{tried}\n{packages}\n`make setup` installs what is \
             needed; CLANG=/path/to/clang picks a compiler."
        ))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(all(feature = "nvidia", target_os = "linux"))]
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn compiler(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .compiler(&self.path)
            .std("c11")
            .warnings(true)
            .extra_warnings(true)
            .warnings_into_errors(warnings_are_errors())
            .flag("-fvisibility=hidden");
        for flag in &self.flags {
            build.flag(flag);
        }
        build
    }

    /// Lets the tests compile Objective-C programs of their own with the same clang, flags and libraries.
    pub fn describe_for_tests(&self, target: &str) {
        let libraries: Vec<String> = libraries(target)
            .iter()
            .map(|library| match library.split_once('=') {
                Some(("framework", name)) => format!("-Wl,-framework,{name}"),
                Some((_, name)) => format!("-l{name}"),
                None => format!("-l{library}"),
            })
            .chain(
                self.library_folders()
                    .map(|folder| format!("-L{}", folder.display())),
            )
            .collect();
        let separator = "\u{1f}";
        println!(
            "cargo:rustc-env=IRONBRIDGE_NATIVE_CLANG={}",
            self.path.display()
        );
        for (name, values) in [
            ("IRONBRIDGE_NATIVE_FLAGS", &self.flags),
            ("IRONBRIDGE_NATIVE_LIBRARIES", &libraries),
        ] {
            println!("cargo:rustc-env={name}={}", values.join(separator));
        }
    }

    /// What an executable is linked with whose native code runs under that sanitizer: the runtime that `clang -###`
    /// names. On Linux rustc's linker may be GCC's driver, whose own runtimes are others. On a Mac it is clang.
    pub fn sanitizer_runtime(&self, target: &str, sanitizer: &str) -> Result<Vec<String>, String> {
        if target == "macos" {
            return Ok(vec![format!("-fsanitize={sanitizer}")]);
        }
        let linked = Command::new(&self.path)
            .args([
                &format!("-fsanitize={sanitizer}"),
                "-###",
                "-x",
                "c",
                "/dev/null",
            ])
            .output()
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        let words = String::from_utf8_lossy(&linked.stderr).replace('"', "");
        let runtime = |word: &&str| word.contains("libclang_rt.");
        let mut arguments: Vec<String> = Vec::new();
        for word in words.split_whitespace().filter(runtime) {
            match word.ends_with(".a") {
                true => arguments.extend(
                    ["-Wl,--whole-archive", word, "-Wl,--no-whole-archive"].map(String::from),
                ),
                false => arguments.push(format!("-Wl,{word}")),
            }
        }
        if arguments.is_empty() {
            return Err(format!(
                "{} has no runtime of the {sanitizer} sanitizer",
                self.path.display()
            ));
        }
        arguments.extend(["-lpthread", "-lrt", "-lm", "-ldl", "-lresolv"].map(String::from));
        Ok(arguments)
    }

    /// The libraries that every user of the native archive needs.
    pub fn link(&self, target: &str) {
        for library in libraries(target) {
            println!("cargo:rustc-link-lib={library}");
        }
        for folder in self.library_folders() {
            println!("cargo:rustc-link-search=native={}", folder.display());
        }
    }

    /// Lets `ironbridge doctor` say what the program was built with.
    pub fn describe_for_doctor(&self) {
        let say =
            |name: &str, value: &str| println!("cargo:rustc-env=IRONBRIDGE_BUILT_{name}={value}");
        say("BY", &self.path.display().to_string());
        say("BY_VERSION", &self.version);
        if let Some((gnustep, runtime)) = &self.gnustep {
            say("WITH_GNUSTEP", &gnustep.include.display().to_string());
            say("WITH_GNUSTEP_VERSION", &gnustep.version);
            say("WITH_GNUSTEP_FOUND_BY", gnustep.found_by);
            say("WITH_LIBOBJC", &runtime.library.display().to_string());
            say("WITH_LIBOBJC_VERSION", &runtime.version);
            // Of a newer release, they lie elsewhere.
            for header in [
                gnustep.include.join("Foundation/Foundation.h"),
                runtime.headers.join("objc.h"),
            ] {
                println!("cargo:rerun-if-changed={}", header.display());
            }
        }
    }

    /// Where the linker would not look by itself.
    fn library_folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.gnustep
            .iter()
            .flat_map(|(gnustep, runtime)| gnustep.libraries.iter().chain([&runtime.library]))
    }
}

/// In the order in which they must be searched.
fn libraries(target: &str) -> &'static [&'static str] {
    match target {
        // Without Core Graphics there is no default Metal device: see MTLCreateSystemDefaultDevice's documentation.
        "macos" => &[
            "framework=Foundation",
            "framework=Metal",
            "framework=CoreGraphics",
            "dylib=objc",
        ],
        // GNUstep exports a `_Block_copy` that copies nothing, for those without a blocks runtime: the real one must be
        // found first.
        _ => &[
            "dylib=BlocksRuntime",
            "dylib=gnustep-base",
            "dylib=objc",
            "dylib=pthread",
            "dylib=m",
        ],
    }
}

const MAC_FLAGS: [&str; 3] = ["-fno-objc-arc", "-fblocks", "-mmacosx-version-min=13.0"];
const MAC_PACKAGES: &str = "The command line tools have one: xcode-select --install";

/// A compiler that `CLANG` names is the only one: nobody wants another in silence. `CC` is often GCC, so it is only the
/// first to try.
fn candidates() -> Result<Vec<PathBuf>, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let find = |name: &Path| match name.components().count() {
        1 => folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file()),
        _ => name.is_file().then(|| name.to_owned()),
    };
    let named = |variable| env::var_os(variable).filter(|value: &OsString| !value.is_empty());
    if let Some(clang) = named("CLANG").map(PathBuf::from) {
        return match find(&clang) {
            Some(found) => Ok(vec![found]),
            None => Err(format!(
                "CLANG={}: there is no such program",
                clang.display()
            )),
        };
    }
    let versioned = (11..40)
        .rev()
        .map(|version| PathBuf::from(format!("clang-{version}")));
    Ok(named("CC")
        .map(PathBuf::from)
        .into_iter()
        .chain(versioned)
        .chain([PathBuf::from("clang")])
        .filter_map(|name| find(&name))
        .collect())
}

/// The system to build for, with what its tools answer.
fn system() -> System {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let host = env::var("HOST").expect("cargo sets HOST");
    // The tools speak of the system that they run on.
    let native = sysroot().is_none() && target == host;
    let ask = |tool: &str, arguments: &[&str]| match native {
        true => answer(Command::new(tool).args(arguments)),
        false => {
            Err("not asked, for it speaks of this system and not of the one to build for".into())
        }
    };
    let multiarch = ["gcc", "cc"]
        .into_iter()
        .find_map(|compiler| ask(compiler, &["-print-multiarch"]).ok())
        .map(|triplet| triplet.trim().to_owned())
        .filter(|triplet| !triplet.is_empty());
    let compile = ask("gnustep-config", &["--objc-flags"]);
    let link = ask("gnustep-config", &["--base-libs"]);
    System {
        root: sysroot().unwrap_or_else(|| "/".into()),
        multiarch,
        gnustep_config: compile.map(|flags| flags + &link.unwrap_or_default()),
        pkg_config: ask("pkg-config", &["--cflags", "--libs", "gnustep-base"]),
        installed: (ask("dpkg-query", &["--version"]).is_ok()).then_some(installed),
        target,
    }
}

/// What a program prints, or why it prints nothing.
fn answer(command: &mut Command) -> Result<String, String> {
    // pkg-config leaves out the folders that compilers search anyway, unless it is told not to.
    command
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(text.lines().next().unwrap_or("it failed").to_owned())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("not installed".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn first_line(program: &Path, argument: &str) -> Option<String> {
    let text = answer(Command::new(program).arg(argument)).ok()?;
    text.lines().next().map(String::from)
}

/// The version of an installed Debian package.
fn installed(package: &str) -> Option<String> {
    let format = "-f=${db:Status-Status} ${Version}";
    let text = answer(Command::new("dpkg-query").args(["-W", format, package])).ok()?;
    text.strip_prefix("installed ").map(String::from)
}

/// GNUstep's Foundation on GCC's runtime. GCC's own include folder would shadow clang's `<stdatomic.h>`, so only its
/// `objc` folder is put on the path, with the one header that clang's blocks need beside it.
fn gnustep_flags(out: &Path, gnustep: &GnuStep, runtime: &Runtime) -> Result<Vec<String>, String> {
    let objc = &runtime.headers;
    let include = out.join("objc-include");
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(include.join("objc"))?;
        for entry in fs::read_dir(objc)? {
            let entry = entry?;
            fs::copy(entry.path(), include.join("objc").join(entry.file_name()))?;
        }
        fs::write(
            include.join("objc/blocks_runtime.h"),
            "#include <Block.h>\n",
        )
    };
    copy().map_err(|error| format!("copying {}: {error}", objc.display()))?;

    let mut flags: Vec<String> = [
        "-fobjc-runtime=gcc",
        "-fblocks",
        "-fexceptions",
        "-fobjc-exceptions",
        "-Wno-unused-command-line-argument", // the C files have no use for the Objective-C flags
        "-fconstant-string-class=NSConstantString",
        "-fno-strict-aliasing",
        "-pthread",
        "-D_GNU_SOURCE",
        "-DGNUSTEP",
        "-DGNUSTEP_BASE_LIBRARY=1",
        "-DGNU_RUNTIME=1",
        "-D_NATIVE_OBJC_EXCEPTIONS",
    ]
    .map(String::from)
    .to_vec();
    flags.push(format!("-isystem{}", include.display()));
    for folder in &gnustep.includes {
        flags.push(format!("-isystem{}", folder.display()));
    }
    if let Some(sysroot) = sysroot() {
        let target = env::var("TARGET").expect("cargo sets TARGET");
        flags.push(format!("--target={target}"));
        flags.push(format!("--sysroot={}", sysroot.display()));
    }
    Ok(flags)
}

/// The root of the system to build for, when it is not this one.
pub fn sysroot() -> Option<PathBuf> {
    env::var_os(SYSROOT_VARIABLE).map(PathBuf::from)
}
