//! One source, through clang: preprocessed and checked as a whole, then one small library per kernel, on demand. A
//! whole file of kernels takes minutes to compile, one kernel a fraction of a second.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cache::{Cache, Hash};
use super::clang::Clang;
use super::diagnostics;
use super::error::Error;
use super::rewrite::{FunctionConstant, Kernel, Program, Value};
use super::shim::Shim;

/// MSL 3.1, as `__METAL_VERSION__` states it.
const METAL_VERSION: &str = "310";

/// A compiler with its headers and the cache of what it made.
pub struct Compiler {
    clang: Clang,
    shim: Shim,
    cache: Cache,
}

impl Compiler {
    /// Finds clang and opens the cache.
    pub fn open(cache: Cache) -> Result<Compiler, Error> {
        Ok(Compiler {
            clang: Clang::find()?,
            shim: Shim::install(cache.folder())?,
            cache,
        })
    }

    /// Everything that a result depends on besides the text.
    fn key(&self, arguments: &[OsString], text: &str) -> Hash {
        let mut key = Hash::new()
            .with(self.clang.version.as_bytes())
            .with(&self.shim.hash.to_string().into_bytes())
            .with(processor().as_bytes());
        for argument in arguments {
            key = key.with(argument.as_encoded_bytes());
        }
        key.with(text.as_bytes())
    }

    /// Preprocesses, rewrites and checks a source. The check instantiates every kernel, so what is wrong anywhere is
    /// found here, as Apple's compiler does; a source that passed once is not checked again.
    pub fn program(&self, source: &str) -> Result<Program, Error> {
        let mut program = None;
        let key = self.key(&self.preprocessor_arguments(), source);
        let preprocessed = self.cache.read(key, || {
            let preprocessed = self.preprocess(source)?;
            let parsed = Program::parse(&preprocessed)?;
            self.check(&parsed, source)?;
            program = Some(parsed);
            Ok(preprocessed.into_bytes())
        })?;
        match program {
            Some(program) => Ok(program),
            None => Program::parse(&String::from_utf8_lossy(&preprocessed)),
        }
    }

    pub(super) fn preprocess(&self, source: &str) -> Result<String, Error> {
        let text = format!("#line 1 \"program_source\"\n{source}\n");
        let run = self.clang.run(&self.preprocessor_arguments(), &text)?;
        match run.success {
            true => Ok(String::from_utf8_lossy(&run.stdout).into_owned()),
            false => Err(diagnostics::error(&run.stderr, source)),
        }
    }

    /// Compiles a preprocessed source as C++ for OpenCL with the generic address space off, which is to say: with
    /// Metal's rules about what may point where.
    #[cfg(test)]
    pub(super) fn check_address_spaces(
        &self,
        preprocessed: &str,
        source: &str,
    ) -> Result<(), Error> {
        const HEADER: &str = include_str!("../../../native/softmetal/msl/check/opencl.h");
        let rewritten = super::rewrite::to_opencl(preprocessed)?;
        let text =
            format!("#line 1 \"/opencl.h\"\n{HEADER}\n#line 1 \"program_source\"\n{rewritten}");
        let arguments = [
            "-x",
            "clcpp",
            "-cl-std=clc++2021",
            "-target",
            "spir64",
            "-ferror-limit=0",
            "-Xclang",
            "-cl-ext=-__opencl_c_generic_address_space,-__opencl_c_device_enqueue,-__opencl_c_pipes,+cl_khr_fp16,-cl_khr_fp64,-__opencl_c_fp64",
            "-Xclang",
            "-finclude-default-header",
            "-Xclang",
            "-fdeclare-opencl-builtins",
            "-fsyntax-only",
            "-w",
            "-fno-caret-diagnostics",
            "-fno-color-diagnostics",
            "-",
        ];
        let run = self.clang.run(&arguments.map(OsString::from), &text)?;
        match run.success {
            true => Ok(()),
            false => Err(diagnostics::error(&run.stderr, source)),
        }
    }

    fn check(&self, program: &Program, source: &str) -> Result<(), Error> {
        // Any value will do for a function constant, as long as its type is right.
        let values: Vec<_> = program
            .constants
            .iter()
            .map(|_| Some(Value::Sample))
            .collect();
        let mut text = self.translation_unit(&program.text(&values), false);
        for (index, kernel) in program.kernels.iter().enumerate() {
            text += &kernel.mention(index);
        }
        let mut arguments = self.compiler_arguments(false);
        arguments.extend(["-fsyntax-only", "-"].map(OsString::from));
        let run = self.clang.run(&arguments, &text)?;
        match run.success {
            true => Ok(()),
            false => Err(diagnostics::error(&run.stderr, source)),
        }
    }

    /// The library of one kernel with its function constants set, from the cache or made now. With `validate`, every
    /// access to memory is checked.
    pub fn kernel(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
        validate: bool,
    ) -> Result<PathBuf, Error> {
        let mut text = self.translation_unit(&program.text(values), validate);
        text += &kernel.export();
        let arguments = self.compiler_arguments(validate);
        self.cache.entry(self.key(&arguments, &text), || {
            let library = self.temporary();
            let mut arguments = arguments.clone();
            arguments.extend(["-o", ""].map(OsString::from));
            if let Some(last) = arguments.last_mut() {
                *last = library.clone().into_os_string();
            }
            arguments.extend(link_arguments().iter().map(OsString::from));
            let run = self.clang.run(&arguments, &text)?;
            let made = fs::read(&library);
            let _ = fs::remove_file(&library); // nothing to do about a file that cannot be removed
            match made {
                Ok(bytes) if run.success => Ok(bytes),
                _ => Err(missing_constant(&run.stderr, &program.constants)
                    .unwrap_or_else(|| diagnostics::error(&run.stderr, ""))),
            }
        })
    }

    fn temporary(&self) -> PathBuf {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        self.cache
            .folder()
            .join(format!("{}-{serial}.library.part", std::process::id()))
    }

    /// The rewritten source with the standard library before it. Helpers get internal linkage, so that only what the
    /// kernel uses becomes machine code.
    fn translation_unit(&self, rewritten: &str, validate: bool) -> String {
        let validation = if validate {
            "#include \"validation.h\"\n"
        } else {
            ""
        };
        format!(
            "#include \"msl.h\"\n{validation}\
             #pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)\n\
             #line 1 \"program_source\"\n{rewritten}\n\
             #pragma clang attribute pop\n"
        )
    }

    fn preprocessor_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            "-E",
            "-x",
            "c++",
            "-std=c++17",
            "-undef",
            "-nostdinc",
            "-nostdinc++",
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
        arguments.push(self.shim.macros.clone().into_os_string());
        arguments.push("-".into());
        arguments
    }

    fn compiler_arguments(&self, validate: bool) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            "-x",
            "c++",
            "-std=c++17",
            "-fdeclspec",
            "-nostdinc",
            "-nostdinc++",
            "-fno-exceptions",
            "-fno-rtti",
            "-fsigned-char",
            "-fno-strict-aliasing",
            "-fno-math-errno",
            "-fno-threadsafe-statics",
            "-fPIC",
            "-fvisibility=hidden",
            "-fvisibility-inlines-hidden",
            "-w",
            "-Wno-reserved-user-defined-literal",
            "-fno-caret-diagnostics",
            "-fno-color-diagnostics",
            "-ftemplate-backtrace-limit=0",
            "-ferror-limit=40",
            processor_argument(),
        ]
        .map(OsString::from)
        .to_vec();
        if cfg!(target_arch = "x86_64") {
            // Every operation on half rounds, as a GPU's does; clang's default keeps float precision within an
            // expression.
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
        let mode: &[&str] = match validate {
            false => &["-O2"],
            true => &[
                "-O1",
                "-fsanitize=kernel-address",
                "-mllvm",
                "-asan-instrumentation-with-call-threshold=0",
                "-mllvm",
                "-asan-kernel-mem-intrinsic-prefix=1",
                "-mllvm",
                "-asan-stack=0",
                "-mllvm",
                "-asan-globals=0",
            ],
        };
        arguments.extend(mode.iter().map(OsString::from));
        arguments.push("-I".into());
        arguments.push(self.shim.library.clone().into_os_string());
        arguments
    }
}

/// Reads the source and makes a library that takes its C functions (mathematics, memcpy) from the process that loads
/// it.
fn link_arguments() -> &'static [&'static str] {
    if cfg!(target_os = "macos") {
        &[
            "-dynamiclib",
            "-nostdlib",
            "-Wl,-undefined,dynamic_lookup",
            "-",
        ]
    } else {
        &[
            "-shared",
            "-nostdlib",
            "-Wl,-z,noexecstack",
            "-Wl,--hash-style=gnu",
            "-",
        ]
    }
}

fn processor_argument() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "-march=native"
    } else {
        "-mcpu=native"
    }
}

/// What `native` stands for: entries of a cache that two machines share must not be mixed up.
fn processor() -> &'static str {
    static PROCESSOR: OnceLock<String> = OnceLock::new();
    PROCESSOR.get_or_init(describe_processor)
}

fn describe_processor() -> String {
    let description = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines: Vec<&str> = description
        .lines()
        .filter(|line| {
            line.starts_with("flags")
                || line.starts_with("Features")
                || line.starts_with("model name")
        })
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n")
}

/// A function constant that has no value and that the kernel uses is a declaration without a definition: the linker
/// says so, or, where a constant expression needs it, the compiler.
fn missing_constant(stderr: &str, constants: &[FunctionConstant]) -> Option<Error> {
    let unlinked = |line: &&str| {
        line.contains("undefined")
            || line.contains("isn't defined")
            || line.contains("initializer of")
    };
    let line = stderr.lines().find(unlinked)?;
    let constant = constants.iter().find(|constant| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == constant.name)
    })?;
    Some(Error::Function(format!(
        "function constant `{}` [[function_constant({})]] has no value",
        constant.name, constant.index
    )))
}
