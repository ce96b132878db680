//! Finds a clang that compiles our Objective-C, and knows its flags.
//!
//! For another Linux than the one that builds, `IRONBRIDGE_SYSROOT` names the folder with that system's headers and
//! libraries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

pub struct Clang {
    path: PathBuf,
    flags: Vec<String>,
}

impl Clang {
    /// The clang named by `CLANG` or `CC`, else the newest one on the path, that compiles [`PROBE`].
    pub fn find(out: &Path, target: &str) -> Result<Clang, String> {
        for variable in ["CLANG", "CC", SYSROOT_VARIABLE] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        let flags = match target {
            "linux" => gnustep_flags(out)?,
            _ => vec![
                "-fno-objc-arc".into(),
                "-fblocks".into(),
                "-mmacosx-version-min=13.0".into(),
            ],
        };
        let probe = out.join("probe.m");
        fs::write(&probe, PROBE).map_err(|error| format!("{}: {error}", probe.display()))?;

        let mut tried = String::new();
        for path in candidates() {
            let result = Command::new(&path)
                .args(&flags)
                .args(["-fsyntax-only", "-Werror=implicit-function-declaration"])
                .arg(&probe)
                .output();
            match result {
                Ok(output) if output.status.success() => return Ok(Clang { path, flags }),
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    let first = text
                        .lines()
                        .find(|line| line.contains("error"))
                        .unwrap_or("failed");
                    tried += &format!("\n  {}: {first}", path.display());
                }
                Err(_) => continue, // not installed
            }
        }
        Err(format!(
            "no clang here compiles Objective-C with blocks.{}\n{}",
            if tried.is_empty() {
                String::new()
            } else {
                format!(" Tried:{tried}")
            },
            INSTALL
        ))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn compiler(&self) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .compiler(&self.path)
            .std("c11")
            .warnings(true)
            .extra_warnings(true)
            .warnings_into_errors(env::var_os("IRONBRIDGE_WARNINGS_AS_ERRORS").is_some())
            .flag("-fvisibility=hidden");
        println!("cargo:rerun-if-env-changed=IRONBRIDGE_WARNINGS_AS_ERRORS");
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
            .chain(libobjc_folder(target).map(|folder| format!("-L{}", folder.display())))
            .collect();
        let separator = "\u{1f}";
        println!("cargo:rustc-env=IRONBRIDGE_CLANG={}", self.path.display());
        for (name, values) in [
            ("IRONBRIDGE_NATIVE_FLAGS", &self.flags),
            ("IRONBRIDGE_NATIVE_LIBRARIES", &libraries),
        ] {
            println!("cargo:rustc-env={name}={}", values.join(separator));
        }
    }

    /// The libraries that every user of the native archive needs.
    pub fn link(&self, target: &str) {
        for library in libraries(target) {
            println!("cargo:rustc-link-lib={library}");
        }
        if let Some(folder) = libobjc_folder(target) {
            println!("cargo:rustc-link-search=native={}", folder.display());
        }
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

/// On Linux libobjc belongs to GCC and lies in its folder, which only GCC itself searches.
fn libobjc_folder(target: &str) -> Option<PathBuf> {
    gcc_folders()
        .into_iter()
        .find(|folder| target == "linux" && folder.join("libobjc.so").exists())
}

const INSTALL: &str = "Install what is missing:
  Debian, Ubuntu  apt install clang-19 libclang-19-dev libgnustep-base-dev libobjc-12-dev libblocksruntime-dev
  macOS           xcode-select --install
  elsewhere       clang, GNUstep base, GCC's libobjc and the blocks runtime, with their headers
or run `make setup`. CLANG=/path/to/clang picks a compiler.";

fn candidates() -> Vec<PathBuf> {
    let named = ["CLANG", "CC"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let versioned = (11..40)
        .rev()
        .map(|version| PathBuf::from(format!("clang-{version}")));
    named
        .chain(versioned)
        .chain([PathBuf::from("clang")])
        .collect()
}

/// GNUstep's Foundation on GCC's runtime. GCC's own include folder would shadow clang's `<stdatomic.h>`, so only its
/// `objc` folder is put on the path, with the one header that clang's blocks need beside it.
fn gnustep_flags(out: &Path) -> Result<Vec<String>, String> {
    let objc = gcc_folders()
        .into_iter()
        .map(|folder| folder.join("include/objc"))
        .find(|folder| folder.join("objc.h").exists())
        .ok_or_else(|| {
            format!("GCC's Objective-C headers (objc/objc.h) are missing.\n{INSTALL}")
        })?;
    let foundation = ["/usr/local/include/GNUstep", "/usr/include/GNUstep"]
        .into_iter()
        .map(in_sysroot)
        .find(|folder| folder.join("Foundation/Foundation.h").exists())
        .ok_or_else(|| format!("GNUstep's Foundation headers are missing.\n{INSTALL}"))?;

    let include = out.join("objc-include");
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(include.join("objc"))?;
        for entry in fs::read_dir(&objc)? {
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
    flags.push(format!("-isystem{}", foundation.display()));
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

/// Where the absolute `path` of the system to build for lies.
fn in_sysroot(path: &str) -> PathBuf {
    match sysroot() {
        Some(sysroot) => sysroot.join(path.trim_start_matches('/')),
        None => PathBuf::from(path),
    }
}

/// GCC's folders, newest version first.
fn gcc_folders() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(in_sysroot("/usr/lib/gcc"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|triple| fs::read_dir(triple.path()).ok())
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let major = entry
                .file_name()
                .to_str()?
                .split('.')
                .next()?
                .parse()
                .ok()?;
            Some((major, entry.path()))
        })
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, path)| path).collect()
}
