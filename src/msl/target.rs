//! What a Metal source is compiled for: clang's flags, the folder of the standard library that is the target's own, and
//! the text that clang reads. `build.rs` compiles ironbridge's own kernels with the same.

use std::ffi::OsString;
use std::path::Path;

use super::rewrite::{Kernel, Program, Value};

/// MSL 3.1, as `__METAL_VERSION__` states it.
const METAL_VERSION: &str = "310";

/// A target. What is compiled for the CPU is an object, for NVIDIA's GPUs a PTX module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This processor.
    Cpu(Instrumentation),
    /// GPUs from compute capability 8.0 on.
    Nvptx,
}

/// What a kernel does at each access to memory, on the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrumentation {
    None,
    /// The access is checked.
    Bounds,
    /// The access is checked, and its bytes are counted.
    Work,
}

/// What makes clang preprocess a source from its standard input, whose `<metal_stdlib>` is in the folder `macros`.
pub fn preprocessor_arguments(macros: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-E",
        "-x",
        "c++",
        "-std=c++17",
        "-undef",
        "-nostdinc",
        "-nostdinc++",
        // Another spelling of brackets would pass by the rewriter.
        "-fno-digraphs",
        "-fno-crash-diagnostics",
        "-w",
        "-fno-caret-diagnostics",
        "-fno-color-diagnostics",
        "-D__METAL__=1",
        "-D__METAL_MACOS__=1",
        "-D__METAL_CPP__=1",
        "-D__clang__=1",
        "-D__HAVE_BFLOAT__=1",
        "-D__HAVE_SIMDGROUP_MATRIX__=1",
        "-D__HAVE_SIMDGROUP_REDUCTION__=1",
    ]
    .map(OsString::from)
    .to_vec();
    arguments.push(format!("-D__METAL_VERSION__={METAL_VERSION}").into());
    arguments.push("-isystem".into());
    arguments.push(macros.into());
    arguments
}

impl Target {
    /// What makes clang compile a translation unit; `library` is the folder of the standard library. How it gets the
    /// text, and where the result goes, is the caller's.
    pub fn arguments(self, library: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            "-x",
            "c++",
            "-std=c++17",
            "-fdeclspec",
            "-nostdinc",
            "-nostdinc++",
            "-fno-digraphs",
            "-fno-crash-diagnostics",
            // A loop that does not end is one: the watchdog ends it. Without this it may become nothing at all, not
            // even a return.
            "-fno-finite-loops",
            "-fno-exceptions",
            "-fno-rtti",
            "-fsigned-char",
            "-fno-strict-aliasing",
            "-fno-math-errno",
            "-Wno-reserved-user-defined-literal",
            "-fno-caret-diagnostics",
            "-fno-color-diagnostics",
            "-ftemplate-backtrace-limit=0",
            "-ferror-limit=40",
        ]
        .map(OsString::from)
        .to_vec();
        match self {
            Target::Cpu(instrumentation) => cpu(&mut arguments, instrumentation),
            Target::Nvptx => arguments.extend(NVPTX.map(OsString::from)),
        }
        for folder in [library.to_path_buf(), library.join(self.folder())] {
            arguments.push("-I".into());
            arguments.push(folder.into_os_string());
        }
        arguments
    }

    /// The part of the standard library that is this target's.
    fn folder(self) -> &'static str {
        match self {
            Target::Cpu(_) => "cpu",
            Target::Nvptx => "nvptx",
        }
    }

    /// What each translation unit begins with: the standard library.
    pub fn prefix(self) -> &'static str {
        match self {
            Target::Cpu(Instrumentation::Bounds) => {
                "#include \"msl.h\"\n#include \"cpu/validation.h\"\n"
            }
            Target::Cpu(Instrumentation::Work) => {
                "#define MSL_COUNTS\n#include \"msl.h\"\n#include \"cpu/validation.h\"\n"
            }
            _ => "#include \"msl.h\"\n",
        }
    }

    /// The rewritten source with the standard library before it. Helpers get internal linkage, so that only what the
    /// kernel uses becomes machine code. `only`: the one kernel that is compiled, and none for all of them.
    pub fn translation_unit(
        self,
        program: &Program,
        values: &[Option<Value>],
        only: Option<&Kernel>,
    ) -> String {
        let prefix = self.prefix();
        let mut rewritten = program.text_with(values, self == Target::Nvptx, only);
        // Loads of a null pointer whose values go nowhere are dropped, once arrays are in registers: that takes loops
        // that are unrolled as the source asks.
        if self != Target::Nvptx && rewritten.contains("nullptr") {
            rewritten = program.text_with(values, true, only);
        }
        format!(
            "{prefix}\
             #pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)\n\
             #line 1 \"program_source\"\n{rewritten}\n\
             #pragma clang attribute pop\n"
        )
    }
}

/// A call before each access to memory: `native/msl/cpu/validation.h` has the functions.
const CALLS: [&str; 11] = [
    "-fsanitize=kernel-address",
    "-mllvm",
    "-asan-instrumentation-with-call-threshold=0",
    "-mllvm",
    "-asan-kernel-mem-intrinsic-prefix=1",
    "-mllvm",
    "-asan-stack=0",
    "-mllvm",
    "-asan-globals=0",
    "-mllvm",
    "-asan-constructor-kind=none",
];

fn cpu(arguments: &mut Vec<OsString>, instrumentation: Instrumentation) {
    let always = [
        "-fno-stack-protector",
        "-fno-threadsafe-statics",
        // A load of a null pointer is one: a page fault tells it. Without this it has no meaning, and takes what is
        // before it along. A kernel may well do so where nothing comes of what it loads.
        "-fno-delete-null-pointer-checks",
        "-fPIC",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        processor_argument(),
    ];
    arguments.extend(always.map(OsString::from));
    if cfg!(target_arch = "x86_64") {
        // Code that clang takes to be never reached ends the threadgroup, and does not run on into the next function.
        arguments.extend(["-mllvm", "-trap-unreachable"].map(OsString::from));
        // Every operation on half rounds, as a GPU's does; clang's default keeps float precision within an expression.
        arguments.push("-fexcess-precision=16".into());
    }
    if cfg!(target_arch = "aarch64") {
        // A processor's own atomics, not calls of functions of GCC's library, which nothing is linked with.
        arguments.push("-mno-outline-atomics".into());
    }
    if cfg!(target_os = "linux") {
        // A frame larger than a page touches every page on its way, so that none steps over a stack's guard.
        arguments.push("-fstack-clash-protection".into());
    }
    let mode: &[&str] = match instrumentation {
        Instrumentation::None => &["-O2"],
        Instrumentation::Bounds => &[
            "-O1",
            "-fsanitize=array-bounds",
            "-fno-sanitize-recover=array-bounds",
            // An array of several elements at a struct's end has as many as it says.
            "-fstrict-flex-arrays=1",
        ],
        Instrumentation::Work => &[
            "-O2",
            // A GPU's thread makes its own accesses, which no vector of a processor joins.
            "-fno-vectorize",
            "-fno-slp-vectorize",
            // What is stored where it was loaded counts as well: for a check the first of the two is enough.
            "-mllvm",
            "-asan-opt=0",
        ],
    };
    if instrumentation != Instrumentation::None {
        arguments.extend(CALLS.map(OsString::from));
    }
    arguments.extend(mode.iter().map(OsString::from));
}

fn processor_argument() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "-march=native"
    } else {
        "-mcpu=native"
    }
}

/// PTX of version 7.5 for compute capability 8.0, which drivers from 495 on take and later GPUs run as fast as their
/// own. Contraction as Metal has it. Whatever exchanges values between lanes stays where control flow is uniform. All
/// is inlined: a call hides which memory a pointer is for, and keeps arrays out of registers.
const NVPTX: [&str; 14] = [
    "--target=nvptx64-nvidia-cuda",
    "-march=sm_80",
    "-Xclang",
    "-target-feature",
    "-Xclang",
    "+ptx75",
    "-Xclang",
    "-fconvergent-functions",
    "-ffp-contract=fast",
    "-mllvm",
    "-inline-threshold=100000",
    "-w",
    "-O3",
    "-S",
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use crate::msl::clang::Clang;

    /// Units of the last place that the Metal Shading Language allows, specification 3.1, section 8.4.
    const MOST: [(&str, f64); 22] = [
        ("exp", 4.0),
        ("exp2", 4.0),
        ("log", 4.0),
        ("log2", 4.0),
        ("log10", 4.0),
        ("sin", 4.0),
        ("cos", 4.0),
        ("tan", 6.0),
        ("asin", 4.0),
        ("acos", 4.0),
        ("atan", 5.0),
        ("sinh", 4.0),
        ("cosh", 4.0),
        ("tanh", 5.0),
        ("asinh", 4.0),
        ("acosh", 4.0),
        ("atanh", 5.0),
        ("pow", 16.0),
        ("atan2", 6.0),
        ("fmod", 0.0),
        ("fdim", 0.5),
        ("exact", 0.0),
    ];

    /// The functions are plain C++, so this processor can run them.
    #[test]
    fn functions_for_nvidia_are_as_exact_as_metals() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = env!("CARGO_MANIFEST_DIR");
        let source = fs::read_to_string(format!("{root}/tests/native/nvptx_functions.cpp"));
        let (path, program) = (
            folder.path().join("functions.cpp"),
            folder.path().join("functions"),
        );
        fs::write(&path, source.expect("the test's own file")).expect("a file");
        let clang = Clang::find().unwrap_or_else(|error| panic!("{error}"));
        let compiled = Command::new(clang.path())
            .args([
                "-std=c++17",
                "-O2",
                "-Wno-everything",
                "-I",
                &format!("{root}/native/msl/nvptx"),
            ])
            .args([
                path.as_os_str(),
                "-o".as_ref(),
                program.as_os_str(),
                "-lm".as_ref(),
            ])
            .output()
            .expect("clang runs");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        let run = Command::new(program).output().expect("it runs");
        let lines = String::from_utf8(run.stdout).expect("ASCII");
        let found: Vec<(&str, f64)> = lines
            .lines()
            .map(|line| {
                let mut words = line.split(' ');
                let (name, error) = (
                    words.next().expect("a name"),
                    words.next().expect("an error"),
                );
                (name, error.parse().expect("a number"))
            })
            .collect();
        assert_eq!(found.len(), MOST.len(), "{lines}");
        for ((name, error), (expected, most)) in found.iter().zip(MOST) {
            assert!(*name == expected && *error <= most, "{lines}");
        }
    }
}
