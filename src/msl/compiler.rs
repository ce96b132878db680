//! One source, through clang: preprocessed and checked as a whole, then one small library per kernel, on demand. A
//! whole file of kernels takes minutes to compile, one kernel a fraction of a second.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::cache::{Cache, Entry, Hash};
use super::clang::Clang;
use super::error::Error;
use super::headers::Shim;
use super::limits::Limits;
use super::object::Refusal;
use super::process::Run;
use super::ptx;
use super::rewrite::{FunctionConstant, Kernel, Program, Value};
use super::scratch::Scratch;
use super::target::{self, Instrumentation, Target};
use super::tokens::{Kind, tokenize};
use super::{diagnostics, object, registers};

/// What a source is checked with, whatever it is compiled for.
const CPU: Target = Target::Cpu(Instrumentation::None);

/// What the preprocessor is told to call the list of files that it looked at.
const FILES: &str = "ironbridge-files:";

/// A compiler with its headers and the cache of what it made.
pub struct Compiler {
    clang: Clang,
    shim: Shim,
    cache: Cache,
    limits: Limits,
    /// How many of them may run at once.
    processes: usize,
}

impl Compiler {
    /// Finds clang and opens the cache.
    pub fn open(cache: Cache) -> Result<Compiler, Error> {
        Ok(Compiler {
            clang: Clang::find()?,
            shim: Shim::install(cache.folder())?,
            cache,
            limits: Limits::from_environment()?,
            processes: 1,
        })
    }

    /// With as many processes at once for a source of many kernels.
    pub fn with_processes(self, processes: usize) -> Compiler {
        Compiler { processes, ..self }
    }

    /// With limits of its own.
    #[cfg(test)]
    fn with_limits(self, limits: Limits) -> Compiler {
        Compiler { limits, ..self }
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
        if self.limits.is_too_large(source.len()) {
            return Err(self.limits.too_large("the source"));
        }
        let mut program = None;
        let key = self.key(&self.preprocessor_arguments(), source);
        let preprocessed = self.cache.read(key, || {
            let (preprocessed, parsed) = thread::scope(|scope| {
                if self.processes > 1 {
                    scope.spawn(|| self.precompiled_prefix(CPU)); // the check's
                }
                self.rewrite(source)
            })?;
            self.check(&parsed, source)?;
            program = Some(parsed);
            Ok(preprocessed.into_bytes())
        })?;
        match program {
            Some(program) => Ok(program),
            None => Program::parse(&String::from_utf8_lossy(&preprocessed)),
        }
    }

    fn rewrite(&self, source: &str) -> Result<(String, Program), Error> {
        let preprocessed = self.preprocess(source)?;
        match Program::parse(&preprocessed) {
            Ok(program) => Ok((preprocessed, program)),
            Err(Error::Source(text)) => Err(diagnostics::placed(&text, source, &preprocessed)),
            Err(other) => Err(other),
        }
    }

    pub(crate) fn preprocess(&self, source: &str) -> Result<String, Error> {
        let text = format!("#line 1 \"program_source\"\n{source}\n");
        let run = self
            .clang
            .run(&self.preprocessor_arguments(), &text, &self.limits)?;
        if !run.success {
            return Err(diagnostics::error_in(&run.stderr, source, &text));
        }
        self.check_files(&run.stderr, source)?;
        if self.limits.is_too_large(run.stdout.len()) {
            return Err(self.limits.too_large("the preprocessed source"));
        }
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    }

    /// Only Metal's own headers may be included, embedded or asked for: the preprocessor lists what it found.
    fn check_files(&self, stderr: &str, source: &str) -> Result<(), Error> {
        let list = stderr.split_once(FILES).map_or("", |(_, list)| list);
        let list = list.replace("\\\n", " ").replace("\\ ", "\0");
        for name in list.split_whitespace() {
            let name = name
                .replace('\0', " ")
                .replace("$$", "$")
                .replace("\\#", "#");
            let path = Path::new(&name);
            let inside = path.starts_with(&self.shim.macros)
                && path.components().all(|part| part.as_os_str() != "..");
            if inside {
                continue;
            }
            let words = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            let words = words.unwrap_or_default();
            let line = source
                .lines()
                .position(|line| line.contains(&words))
                .unwrap_or(0);
            return Err(Error::Source(format!(
                "program_source:{}: error: `{name}` is no part of Metal: a source can include <metal_stdlib> and its parts only",
                line + 1
            )));
        }
        Ok(())
    }

    /// What clang says of a preprocessed source as C++ for OpenCL with the generic address space off, which is to say:
    /// with Metal's rules about what may point where. Empty: it has no errors.
    pub(super) fn check_address_spaces(&self, preprocessed: &str) -> Result<String, Error> {
        const HEADER: &str = include_str!("../../native/msl/check/opencl.h");
        let rewritten = super::rewrite::opencl::to_opencl(preprocessed)?;
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
        let run = self
            .clang
            .run(&arguments.map(OsString::from), &text, &self.limits)?;
        match run.success {
            true => Ok(String::new()),
            false => diagnostics::before_the_source(&run.stderr).map_or(Ok(run.stderr), Err),
        }
    }

    /// The source as a translation unit that instantiates every kernel.
    fn mentions(program: &Program) -> String {
        CPU.translation_unit(program, &program.samples(), None) + &program.mentions()
    }

    /// Compiles a source in the language that Metal is before version 4, with the operand types of Apple's headers.
    pub(super) fn check_language(&self, program: &Program, source: &str) -> Result<(), Error> {
        let mut arguments = self.compiler_arguments(CPU);
        let more = [
            "-std=c++14",
            "-DMSL_APPLE_RULES",
            "-w",
            "-fsyntax-only",
            "-",
        ];
        arguments.extend(more.map(OsString::from));
        let text = Compiler::mentions(program);
        let run = self.clang.run(&arguments, &text, &self.limits)?;
        match run.success {
            true => Ok(()),
            false => Err(diagnostics::error(&run.stderr, source)),
        }
    }

    /// Does `check` unless the same source passed it before; `name` tells this check from others.
    pub(super) fn once(
        &self,
        name: &str,
        source: &str,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut arguments = self.preprocessor_arguments();
        arguments.push(name.into());
        let key = self.key(&arguments, source);
        let passed = self
            .cache
            .read(key, || check().map(|()| b"passed".to_vec()))?;
        debug_assert_eq!(passed, b"passed");
        Ok(())
    }

    fn check(&self, program: &Program, source: &str) -> Result<(), Error> {
        let text = CPU.translation_unit(program, &program.samples(), None);
        let mut arguments = self.compiler_arguments(CPU);
        arguments.extend(CHECK_ARGUMENTS.map(OsString::from));
        let parts = program.mentions_in_parts(self.processes);
        if parts.len() > 1 && self.all_pass(&arguments, &text, &parts) {
            return Ok(());
        }
        let mentions = format!("{text}{}", program.mentions());
        let run = self.compile(CPU, &arguments, &mentions)?;
        if !run.success {
            return Err(diagnostics::error_in(&run.stderr, source, &mentions));
        }
        // A constant whose value is only known after optimisation is no mistake, so what is left of the others tells.
        let Some(error) = diagnostics::warnings(&run.stderr, CONSTRUCTORS, source) else {
            return Ok(());
        };
        let object = self.object(CPU, &self.compiler_arguments(CPU), &text)?;
        match object::check(&object) {
            Err(Refusal::Initializer(_)) => Err(error),
            _ => Ok(()), // what else there may be is found when a kernel is compiled
        }
    }

    /// Whether `text` passes with each of these parts, all at once. What is wrong is for a check of the whole to say,
    /// once and in the source's order.
    fn all_pass(&self, arguments: &[OsString], text: &str, parts: &[String]) -> bool {
        let passes = |part: &String| {
            let run = self.compile(CPU, arguments, &format!("{text}{part}"));
            run.is_ok_and(|run| run.success && run.stderr.is_empty())
        };
        thread::scope(|scope| {
            let runs: Vec<_> = parts
                .iter()
                .map(|part| scope.spawn(move || passes(part)))
                .collect();
            runs.into_iter()
                .all(|run| run.join().is_ok_and(|passed| passed))
        })
    }

    /// Runs the compiler on a translation unit of `target`.
    fn compile(&self, target: Target, arguments: &[OsString], text: &str) -> Result<Run, Error> {
        if let Some(prefix) = self.precompiled_prefix(target) {
            let mut with = vec![OsString::from("-include-pch"), prefix.clone().into()];
            with.extend_from_slice(arguments);
            let run = self.clang.run(&with, text, &self.limits)?;
            if run.success {
                return Ok(run);
            }
            let name = prefix.to_string_lossy();
            let is_of_the_prefix = |line: &str| line.contains(&*name) || line.contains("AST file");
            if run.stderr.lines().any(is_of_the_prefix) {
                // It was removed since it was looked at, or spoiled.
                known_prefixes().retain(|(_, known)| *known != prefix);
            }
            // Without one clang says what is wrong in fewer words: with it, names are taken for misspelled keywords.
        }
        self.clang.run(arguments, text, &self.limits)
    }

    /// What translation units of `target` begin with, as clang's precompiled header: parsing the standard library
    /// takes longer than compiling most kernels. An entry of the cache; `None` where that cannot be had.
    fn precompiled_prefix(&self, target: Target) -> Option<PathBuf> {
        if !self.shim.is_kept() || self.cache.limit() < PREFIX_ROOM {
            return None;
        }
        let mut arguments = self.compiler_arguments(target);
        arguments.retain(|argument| argument != "-S"); // what a GPU's code is printed as
        arguments.extend(PREFIX_ARGUMENTS.map(OsString::from));
        let key = self.key(&arguments, target.prefix());
        if let Some((_, path)) = known_prefixes().iter().find(|(known, _)| *known == key) {
            return Some(path.clone());
        }
        let made = self.cache.needed_entry(key, || {
            let limits = Limits::default(); // it is none of the source
            let run = self.clang.run(&arguments, target.prefix(), &limits)?;
            match run.success {
                true => Ok(run.stdout),
                false => Err(diagnostics::error(&run.stderr, "")),
            }
        });
        let Ok(Entry::Kept(path)) = made else {
            return None;
        };
        known_prefixes().push((key, path.clone()));
        Some(path)
    }

    /// The machine code of a translation unit.
    fn object(&self, target: Target, arguments: &[OsString], text: &str) -> Result<Vec<u8>, Error> {
        let mut arguments = arguments.to_vec();
        // One process, in which the compiler is: what bounds it bounds all.
        arguments.extend(["-w", "-fintegrated-cc1", "-c", "-o", "-", "-"].map(OsString::from));
        let run = self.compile(target, &arguments, text)?;
        match run.success {
            true => Ok(run.stdout),
            false => Err(diagnostics::error(&run.stderr, "")),
        }
    }

    /// The library of one kernel with its function constants set, from the cache or made now.
    pub fn kernel(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
        instrumentation: Instrumentation,
    ) -> Result<Entry, Error> {
        with_needed(kernel, |only| {
            self.kernel_from(program, kernel, values, instrumentation, only)
        })
    }

    fn kernel_from(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
        instrumentation: Instrumentation,
        only: Option<&Kernel>,
    ) -> Result<Entry, Error> {
        let target = Target::Cpu(instrumentation);
        let mut text = target.translation_unit(program, values, only);
        text += &kernel.export();
        let arguments = self.compiler_arguments(target);
        self.cache.entry(self.key(&arguments, &text), || {
            let constants = &program.constants;
            let missing = |error: &Error| missing_constant(&error.to_string(), constants);
            let object = self
                .object(target, &arguments, &text)
                .map_err(|error| missing(&error).unwrap_or(error))?;
            if let Err(refusal) = object::check(&object) {
                return Err(match &refusal {
                    Refusal::Undefined(name) => undefined_constant(name, constants)
                        .unwrap_or_else(|| undefined(&program.text(values), name, &refusal)),
                    _ => Error::Source(format!("kernel `{}`: {refusal}", kernel.name)),
                });
            }
            self.link(&object)
                .map_err(|error| missing(&error).unwrap_or(error))
        })
    }

    /// The PTX module of one kernel with its function constants set, from the cache or made now.
    pub fn ptx(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
    ) -> Result<String, Error> {
        with_needed(kernel, |only| {
            let module = self.nvptx(program, kernel, values, only)?;
            let Some(symbol) = ptx::undefined(&module) else {
                return Ok(module);
            };
            let refusal = Refusal::Undefined(String::from(symbol));
            Err(undefined_constant(symbol, &program.constants)
                .unwrap_or_else(|| undefined(&program.text(values), symbol, &refusal)))
        })
    }

    /// The same, which may use what nothing defines.
    fn nvptx(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
        only: Option<&Kernel>,
    ) -> Result<String, Error> {
        let mut text = Target::Nvptx.translation_unit(program, values, only);
        text += &kernel.export_as(0);
        let mut arguments = self.compiler_arguments(Target::Nvptx);
        arguments.extend(["-o", "-", "-"].map(OsString::from));
        let module = self.cache.read(self.key(&arguments, &text), || {
            let run = self.compile(Target::Nvptx, &arguments, &text)?;
            match run.success {
                true => Ok(run.stdout),
                false => Err(diagnostics::error(&run.stderr, "")),
            }
        })?;
        Ok(String::from_utf8_lossy(&module).into_owned())
    }

    /// How many threads of a threadgroup a kernel has registers for (`registers`). A clang that knows no GPU cannot
    /// tell, and then it is all.
    pub fn most_threads(
        &self,
        program: &Program,
        kernel: &Kernel,
        values: &[Option<Value>],
    ) -> u32 {
        match with_needed(kernel, |only| self.nvptx(program, kernel, values, only)) {
            Ok(module) => registers::most_threads(registers::halves(&module)),
            Err(_) => u32::MAX,
        }
    }

    /// Makes a library of an object, in the cache's folder or where there is room.
    fn link(&self, object: &[u8]) -> Result<Vec<u8>, Error> {
        let (from, to) = (self.temporary("object"), self.temporary("library"));
        let linked = self.link_files(object, &from, &to);
        for file in [from, to] {
            let _ = fs::remove_file(file); // nothing to do about a file that cannot be removed
        }
        linked.or_else(|error| {
            let elsewhere = Scratch::anywhere(|scratch| {
                let file = |name| scratch.path().join(name);
                self.link_files(object, &file("object"), &file("library"))
            });
            elsewhere.map_err(|_| error)
        })
    }

    fn link_files(&self, object: &[u8], from: &Path, to: &Path) -> Result<Vec<u8>, Error> {
        fs::write(from, object).map_err(|error| Error::host(from.display(), error))?;
        let mut arguments: Vec<OsString> = link_arguments(cfg!(target_os = "macos"))
            .iter()
            .map(OsString::from)
            .collect();
        arguments.extend([from.as_os_str(), "-o".as_ref(), to.as_os_str()].map(OsString::from));
        let linked = || fs::read(to).map_err(|error| Error::host(to.display(), error));
        // Starting clang takes several times as long as linking one kernel.
        if !cfg!(target_os = "macos")
            && self
                .clang
                .runs_the_same(&arguments, [from, to], &self.limits)
        {
            return linked();
        }
        let run = self.clang.run(&arguments, "", &self.limits)?;
        match run.success {
            true => linked(),
            false => Err(diagnostics::error(&run.stderr, "")),
        }
    }

    fn temporary(&self, kind: &str) -> PathBuf {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        self.cache
            .folder()
            .join(format!("{}-{serial}.{kind}.part", std::process::id()))
    }

    fn preprocessor_arguments(&self) -> Vec<OsString> {
        let mut arguments = target::preprocessor_arguments(&self.shim.macros);
        let dependencies = [
            "-MD",
            "-MT",
            FILES.trim_end_matches(':'),
            "-MF",
            // Not by the name of a file that clang could remove.
            "/dev/fd/2",
            "-",
        ];
        arguments.extend(dependencies.map(OsString::from));
        arguments
    }

    fn compiler_arguments(&self, target: Target) -> Vec<OsString> {
        target.arguments(&self.shim.library)
    }
}

/// Makes something of the functions that a kernel needs, and of the whole source where that fails.
fn with_needed<T>(
    kernel: &Kernel,
    make: impl Fn(Option<&Kernel>) -> Result<T, Error>,
) -> Result<T, Error> {
    match make(Some(kernel)) {
        Err(Error::Source(_)) => make(None),
        made => made,
    }
}

/// The flag of clang's warnings about objects that need code at load time.
const CONSTRUCTORS: &str = "-Wglobal-constructors";

/// The prefixes that this process has found whole.
fn known_prefixes() -> MutexGuard<'static, Vec<(Hash, PathBuf)>> {
    static KNOWN: Mutex<Vec<(Hash, PathBuf)>> = Mutex::new(Vec::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a cache has when it can hold prefixes, of 5 to 10 MiB for each target, and kernels beside them.
const PREFIX_ROOM: u64 = 64 << 20;

/// For a header that is precompiled. When its files were written does not count: their folder's name says what they
/// hold.
const PREFIX_ARGUMENTS: [&str; 9] = [
    "-w",
    "-fintegrated-cc1",
    "-fpch-instantiate-templates",
    "-Xclang",
    "-fno-pch-timestamp",
    "-xc++-header",
    "-o",
    "-",
    "-",
];

/// For the check of a whole source: no warnings but those about what Metal does not have.
const CHECK_ARGUMENTS: [&str; 5] = [
    "-Wno-everything",
    CONSTRUCTORS,
    "-Werror=undefined-internal",
    "-fsyntax-only",
    "-",
];

/// Reads the object and makes a library that takes its C functions (mathematics, memcpy) from the process that loads
/// it. Apple's linker takes no library without its C library (LLVM's D104332), and the compiler names that by itself.
fn link_arguments(for_mac: bool) -> &'static [&'static str] {
    if for_mac {
        &["-dynamiclib", "-Wl,-undefined,dynamic_lookup"]
    } else {
        &[
            "-shared",
            "-nostdlib",
            "-Wl,-z,noexecstack",
            "-Wl,--hash-style=gnu",
        ]
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

/// A function constant that has no value and that the kernel uses is a declaration without a definition: the object
/// says so, or, where a constant expression needs it, the compiler.
fn missing_constant(said: &str, constants: &[FunctionConstant]) -> Option<Error> {
    let unlinked = |line: &&str| {
        line.contains("undefined")
            || line.contains("isn't defined")
            || line.contains("initializer of")
    };
    let line = said.lines().find(unlinked)?;
    let constant = constants.iter().find(|constant| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == constant.name)
    })?;
    Some(no_value(constant))
}

/// The error about a symbol that nothing defines, where the source first names it.
fn undefined(text: &str, symbol: &str, refusal: &Refusal) -> Error {
    let names = |word: &str| symbol == word || symbol.contains(&format!("{}{word}", word.len()));
    let tokens = match tokenize(text) {
        Ok(tokens) => tokens,
        Err(error) => return error,
    };
    let found = tokens
        .list
        .iter()
        .filter(|token| token.kind == Kind::Identifier)
        .find(|token| names(token.text));
    match found {
        Some(token) => tokens.error_on_line(token.place, refusal),
        None => Error::Source(refusal.to_string()),
    }
}

/// The function constant that an undefined symbol stands for.
fn undefined_constant(symbol: &str, constants: &[FunctionConstant]) -> Option<Error> {
    let stands = |name: &str| symbol == name || symbol.contains(&format!("{}{name}", name.len()));
    let constant = constants.iter().find(|constant| stands(&constant.name))?;
    Some(no_value(constant))
}

fn no_value(constant: &FunctionConstant) -> Error {
    Error::Function(format!(
        "function constant `{}` [[function_constant({})]] has no value",
        constant.name, constant.index
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const KERNEL: &str = "#include <metal_stdlib>\nusing namespace metal;\n\
        kernel void f(device float *x [[buffer(0)]]) { x[0] = exp(x[1]); }\n";
    /// Macros that stand for a billion statements.
    const BOMB: &str = "#include <metal_stdlib>\n#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\n\
        kernel void k(device int*o [[buffer(0)]]){C(o[0]+=1;)}";

    fn compiler(folder: &tempfile::TempDir, limits: Limits) -> Compiler {
        let cache = Cache::at(&folder.path().join("ironbridge"), 1 << 20).expect("a cache");
        let compiler = Compiler::open(cache).unwrap_or_else(|error| panic!("{error}"));
        compiler.with_limits(limits)
    }

    /// Apple's linker takes no library that is not linked with libSystem.
    #[test]
    fn a2_a_library_for_a_mac_has_the_c_library() {
        assert!(!link_arguments(true).contains(&"-nostdlib"));
        assert!(link_arguments(true).contains(&"-dynamiclib"));
        assert!(link_arguments(false).contains(&"-nostdlib"));
    }

    /// The error of a source within limits.
    fn limited(source: &str, limits: Limits) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        match compiler(&folder, limits).program(source) {
            Ok(_) => panic!("it compiled"),
            Err(Error::Limit(text)) => text,
            Err(other) => panic!("another error: {other}"),
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_limited() {
        let limits = Limits {
            memory: Some(700 << 20),
            ..Limits::default()
        };
        let text = limited(BOMB, limits);
        assert!(
            text.contains("700 MiB") && text.contains("IRONBRIDGE_SOFT_COMPILE_MEMORY"),
            "{text}"
        );
    }

    /// A template's instances, the last with something wrong, where `last` is not a float.
    fn instances(count: usize, last: &str) -> String {
        let mut text = String::from(
            "#include <metal_stdlib>\nusing namespace metal;\n\
             template <typename T, int N> kernel void f(device T *x [[buffer(0)]]) { x[0] = fma(x[1], x[2], T(N)); }\n",
        );
        for index in 0..count {
            let kind = if index + 1 < count { "float" } else { last };
            text += &format!(
                "template [[host_name(\"f_{index}\")]] kernel void f<{kind}, {index}>(device {kind} *);\n"
            );
        }
        text
    }

    #[test]
    fn kernels_that_are_checked_in_parts_give_the_same_library_and_errors() {
        let with = |source: &str, processes: usize| {
            let folder = tempfile::tempdir().expect("a folder");
            let compiler = compiler(&folder, Limits::default()).with_processes(processes);
            compiler.program(source).map(|it| it.kernels.len())
        };
        assert_eq!(with(&instances(200, "float"), 3), Ok(200));
        let wrong = instances(200, "float *");
        let error = with(&wrong, 3).expect_err("fma takes no pointers");
        assert!(error.to_string().contains("fma"), "{error}");
        assert_eq!(Err(error), with(&wrong, 1));

        let preprocess = |count| {
            let folder = tempfile::tempdir().expect("a folder");
            let compiler = compiler(&folder, Limits::default());
            let text = compiler.preprocess(&instances(count, "float"));
            Program::parse(&text.expect("it is right")).expect("it is right")
        };
        let parts = preprocess(200).mentions_in_parts(8);
        assert_eq!(parts.len(), 3, "each of 64 kernels or more");
        let mentions = parts
            .iter()
            .map(|part| part.matches("msl_mention_").count());
        assert_eq!(mentions.sum::<usize>(), 200);
        assert_eq!(preprocess(100).mentions_in_parts(8).len(), 1);
    }

    #[test]
    fn time_is_limited() {
        let limits = Limits {
            time: Some(Duration::from_millis(500)),
            ..Limits::default()
        };
        // The preprocessor waits for somebody to write into it.
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe.h");
        let name = std::ffi::CString::new(pipe.as_os_str().as_encoded_bytes()).expect("a name");
        // SAFETY: a C string and a mode.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let start = Instant::now();
        let text = limited(&format!("#include \"{}\"\n", pipe.display()), limits);
        assert!(
            text.contains("500ms") && text.contains("IRONBRIDGE_SOFT_COMPILE_TIMEOUT"),
            "{text}"
        );
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn sources_are_limited_before_and_after_preprocessing() {
        let limits = Limits {
            source: Some(1 << 20),
            ..Limits::default()
        };
        let text = limited(&" ".repeat((1 << 20) + 1), limits);
        assert!(text.contains("the source has more than 1 MiB"), "{text}");
        let grows = "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\nconstant int n = 0 B(B(+ 1));\n";
        let text = limited(grows, limits);
        assert!(
            text.contains("the preprocessed source has more than 1 MiB"),
            "{text}"
        );
        let text = limited(&"+ ".repeat(3 << 20), Limits::default());
        assert!(text.contains("2097152 tokens"), "{text}");
    }

    #[test]
    fn a_prefix_that_is_spoiled_or_gone_is_done_without() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(&folder.path().join("ironbridge"), PREFIX_ROOM).expect("a cache");
        let compiler = Compiler::open(cache).unwrap_or_else(|error| panic!("{error}"));
        let make = |name: &str| {
            let source = KERNEL.replace("f(", &format!("{name}("));
            let program = compiler.program(&source).expect("a program");
            let made = compiler.kernel(&program, &program.kernels[0], &[], Instrumentation::None);
            assert!(matches!(made, Ok(Entry::Kept(_))), "{made:?}");
        };
        make("one");
        let prefix = compiler.precompiled_prefix(CPU).expect("a prefix");
        fs::write(&prefix, "CPCH, or something like it").expect("it can be written");
        make("two");
        let again = compiler.precompiled_prefix(CPU).expect("it is made anew");
        assert!(fs::metadata(&again).expect("a file").len() > 1 << 20);
        fs::remove_file(&again).expect("it can be removed");
        make("three");
        // A cache that it would fill has none.
        let small = self::compiler(&folder, Limits::default());
        assert_eq!(small.precompiled_prefix(CPU), None);
    }

    #[test]
    fn a_compiler_that_crashes_is_an_error() {
        let source = "#include <metal_stdlib>\n#pragma clang __debug crash\nkernel void f(device int *x [[buffer(0)]]) {}\n";
        let folder = tempfile::tempdir().expect("a folder");
        let error = compiler(&folder, Limits::default()).program(source).err();
        let text = error.map_or(String::new(), |error| error.to_string());
        assert!(text.contains("the Metal compiler crashed"), "{text}");
        let left = fs::read_dir(folder.path().join("ironbridge/msl"))
            .expect("the cache")
            .flatten();
        let left: Vec<_> = left.map(|file| file.file_name()).collect();
        let usual = |name: &OsString| {
            name.to_string_lossy().starts_with("lock-")
                || name.to_string_lossy().starts_with("headers-")
        };
        assert!(left.iter().all(usual), "{left:?}");
    }

    #[test]
    fn headers_and_kernels_that_cannot_be_kept_are_used_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let usual = compiler(&folder, Limits::default());
        // Where headers, entries and locks go there is something else now.
        let place = folder.path().join("ironbridge/msl");
        let headers = place.join(format!("headers-{}", usual.shim.hash));
        fs::remove_dir_all(&headers).expect("they were there");
        fs::write(&headers, b"").expect("a file");
        for lock in 0..64 {
            fs::create_dir_all(place.join(format!("lock-{lock:02}"))).expect("a folder");
        }
        let compiler = compiler(&folder, Limits::default());
        assert!(!compiler.shim.macros.starts_with(&place));
        let program = compiler
            .program(KERNEL)
            .unwrap_or_else(|error| panic!("{error}"));
        let entry = compiler.kernel(&program, &program.kernels[0], &[], Instrumentation::None);
        let Ok(Entry::Kept(path)) = entry else {
            panic!("{entry:?}")
        };
        fs::remove_file(&path).expect("the entry");
        fs::create_dir(&path).expect("a folder with its name");
        let again = compiler.kernel(&program, &program.kernels[0], &[], Instrumentation::None);
        assert!(
            matches!(again, Ok(Entry::Unkept(bytes)) if bytes.starts_with(b"\x7fELF") || cfg!(target_os = "macos"))
        );
    }
}
