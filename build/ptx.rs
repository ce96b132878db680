//! Compiles ironbridge's own kernels to PTX, with the rewriter and the flags that the library uses for other sources,
//! so that a program needs no compiler for them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::thread;

use crate::clang::{Clang, warnings_are_errors};
use crate::kernels;
use crate::msl::ptx;
use crate::msl::rewrite::Program;
use crate::msl::target::{self, Target};

const LIBRARY: &str = "native/msl";
/// All of NVIDIA's GPUs that are compiled for multiply matrices of bytes (`native/msl/nvptx/quads.h`).
const BYTE_MATRIX: &str = "-D__HAVE_IRONBRIDGE_BYTE_MATRIX__=1";

/// A kernel's module.
pub struct Module {
    pub family: String,
    pub name: String,
    pub ptx: String,
}

/// Names a folder of compiled modules for the builds of several profiles and target folders. By default each build has
/// its own.
const CACHE_VARIABLE: &str = "IRONBRIDGE_PTX_CACHE";

/// Writes what `src/msl/embedded_ptx.rs` includes. Without the modules of a clang that cannot compile them, kernels are
/// compiled when they are used: where warnings are no errors, that is no reason to refuse a build.
pub fn embed(clang: &Clang, out: &Path) -> Result<(), String> {
    let path = out.join("nvidia_kernels.bin");
    // A build script is not optimized, and slow at rewriting every kernel.
    let kept = cache(out).join(format!("{:016x}.bin", everything(clang)));
    if fs::copy(&kept, &path).is_ok() {
        return Ok(());
    }
    let modules = match Compiler::new(clang, out).and_then(|compiler| compiler.compile()) {
        Err(why) if !warnings_are_errors() => {
            let why = why
                .lines()
                .find(|line| line.contains("error"))
                .unwrap_or(&why);
            println!(
                "cargo:warning={} compiles no kernels for NVIDIA's GPUs, which are then compiled when they are used: \
                 {why}",
                clang.version()
            );
            Vec::new()
        }
        compiled => compiled?,
    };
    let complete = !modules.is_empty();
    let mut records = Vec::new();
    for family in modules.chunk_by(|a, b| a.family == b.family) {
        let mut text = Vec::new();
        for module in family {
            put(&mut text, module.name.as_bytes());
            put(&mut text, module.ptx.as_bytes());
        }
        put(&mut records, family[0].family.as_bytes());
        records.extend((family.len() as u32).to_le_bytes());
        put(
            &mut records,
            &miniz_oxide::deflate::compress_to_vec(&text, 6),
        );
    }
    fs::write(&path, &records).map_err(|error| format!("{}: {error}", path.display()))?;
    if complete {
        keep(&kept, &records)?;
    }
    Ok(())
}

/// The folder of what was compiled: the build runs again after any change of a native file.
fn cache(out: &Path) -> PathBuf {
    env::var_os(CACHE_VARIABLE).map_or_else(|| out.into(), PathBuf::from)
}

/// A hash of the compiler, of what it compiles, and of the code that prepares it.
fn everything(clang: &Clang) -> u64 {
    let folders = ["native/kernels", LIBRARY, "src/msl", "build"];
    let mut hasher = DefaultHasher::new();
    (clang.version(), folders.map(|folder| texts(folder.into()))).hash(&mut hasher);
    hasher.finish()
}

/// Writes a file of the cache. Another build may read it at any time.
fn keep(path: &Path, content: &[u8]) -> Result<(), String> {
    let unfinished = path.with_extension(process::id().to_string());
    fs::write(&unfinished, content)
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Appends a length and as many bytes.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

/// What every family is compiled with.
struct Compiler<'c> {
    clang: &'c Clang,
    /// With `<metal_stdlib>` for the preprocessor.
    headers: PathBuf,
    cache: PathBuf,
}

impl Compiler<'_> {
    fn new<'c>(clang: &'c Clang, out: &Path) -> Result<Compiler<'c>, String> {
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        let headers = out.join("metal_headers");
        let cache = cache(out);
        for folder in [&headers, &cache] {
            fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        let (from, to) = (
            Path::new(LIBRARY).join("metal_stdlib"),
            headers.join("metal_stdlib"),
        );
        fs::copy(&from, to).map_err(|error| failed(&from, error))?;
        Ok(Compiler {
            clang,
            headers,
            cache,
        })
    }

    /// Compiles every family of `native/kernels`, several at a time.
    fn compile(&self) -> Result<Vec<Module>, String> {
        // The longest first, so that nobody waits for it at the end.
        let mut families = kernels::families()?;
        families.sort_by_key(|path| std::cmp::Reverse(weight(path)));
        let next = Mutex::new(families.into_iter());
        let results = Mutex::new(Vec::new());
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let Some(path) = next.lock().expect("no worker panics").next() else {
                            break;
                        };
                        let modules = self
                            .family(&path)
                            .map_err(|error| format!("{}: {error}", path.display()));
                        results.lock().expect("no worker panics").push(modules);
                    }
                });
            }
        });
        let mut modules = Vec::new();
        for found in results.into_inner().expect("no worker panics") {
            modules.extend(found?);
        }
        modules.sort_by(|a: &Module, b| (&a.family, &a.name).cmp(&(&b.family, &b.name)));
        Ok(modules)
    }

    fn family(&self, path: &Path) -> Result<Vec<Module>, String> {
        let (family, text) = kernels::source(path)?;
        let mut modules = self.variant(&family, &text, None)?;
        let wanted = ptx::VARIANTS
            .iter()
            .filter(|variant| text.contains(variant.define));
        for own in wanted {
            let compiled = self.variant(&family, &text, Some(format!("-D{}=1", own.define)))?;
            let with_it = compiled.into_iter().filter(|module| own.has(&module.ptx));
            modules.extend(with_it.map(|module| Module {
                family: own.family(&family),
                ..module
            }));
        }
        Ok(modules)
    }

    /// A family's modules as they are with a macro.
    fn variant(
        &self,
        family: &str,
        text: &str,
        define: Option<String>,
    ) -> Result<Vec<Module>, String> {
        let mut arguments = target::preprocessor_arguments(&self.headers);
        arguments.push(BYTE_MATRIX.into());
        arguments.extend(define.map(OsString::from));
        arguments.push("-".into());
        let text = format!("#line 1 \"{family}.metal\"\n{text}");
        let preprocessed = run(self.clang.path(), &arguments, &text)?;
        // Its line markers name a folder of this build's alone, and the cache is for all builds.
        let preprocessed = preprocessed.replace(&*self.headers.to_string_lossy(), "metal_headers");
        let program = Program::parse(&preprocessed).map_err(|error| error.to_string())?;
        let mut text = Target::Nvptx.translation_unit(&program, &program.samples(), None);
        for (number, kernel) in program.kernels.iter().enumerate() {
            text += &kernel.export_as(number);
        }
        let mut arguments = Target::Nvptx.arguments(Path::new(LIBRARY));
        arguments.extend(["-o", "-", "-"].map(OsString::from));
        let module = self.kept(&arguments, &text)?;
        if let Some(symbol) = ptx::undefined(&module) {
            return Err(format!("`{symbol}` is not defined"));
        }
        let split = split(&module, program.kernels.len());
        let modules = program.kernels.iter().zip(split).enumerate();
        modules
            .map(|(number, (kernel, ptx))| {
                ptx::Description::read(&ptx, number)
                    .map_err(|error| format!("{}: {error}", kernel.name))?;
                Ok(Module {
                    family: family.to_owned(),
                    name: kernel.name.clone(),
                    // As if it had been compiled alone.
                    ptx: ptx
                        .replace(&ptx::entry(number), &ptx::entry(0))
                        .replace(&format!("msl_description_{number}["), "msl_description_0["),
                })
            })
            .collect()
    }

    /// What clang makes of a translation unit, from the cache when it was compiled before.
    fn kept(&self, arguments: &[OsString], text: &str) -> Result<String, String> {
        let mut hasher = DefaultHasher::new();
        (self.clang.version(), arguments, text, &*LIBRARY_TEXT).hash(&mut hasher);
        let path = self.cache.join(format!("{:016x}.ptx", hasher.finish()));
        if let Ok(module) = fs::read_to_string(&path) {
            return Ok(module);
        }
        let module = run(self.clang.path(), arguments, text)?;
        keep(&path, module.as_bytes())?;
        Ok(module)
    }
}

/// Which families take long: those with matrices in blocks.
fn weight(path: &Path) -> u32 {
    let name = path.to_string_lossy();
    u32::from(name.contains("matmul") || name.contains("attention"))
        + 2 * u32::from(name.contains("blocks"))
}

/// The standard library's headers that a GPU's code includes.
static LIBRARY_TEXT: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let mut texts = texts(LIBRARY.into());
    let others = ["cpu", "check"].map(|folder| Path::new(LIBRARY).join(folder));
    texts.retain(|(path, _)| !others.iter().any(|folder| path.starts_with(folder)));
    texts
});

/// The files of a folder and of those in it, in a stable order.
fn texts(folder: PathBuf) -> Vec<(PathBuf, Vec<u8>)> {
    let mut texts = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            match fs::read(&path) {
                Ok(text) => texts.push((path, text)),
                Err(_) => folders.push(path),
            }
        }
    }
    texts.sort();
    texts
}

fn run(clang: &Path, arguments: &[OsString], input: &str) -> Result<String, String> {
    let mut child = Command::new(clang)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", clang.display()))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let output = thread::scope(|scope| {
        // A compiler that stops reading says why by itself.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    });
    let output = output.map_err(|error| format!("{}: {error}", clang.display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// One module for each of the kernels 0 .. `count` of a module: what they share, and a kernel with its description.
/// Drivers compile a module as a whole, and a program uses few of the kernels of one source.
fn split(module: &str, count: usize) -> Vec<String> {
    let mut shared = Vec::new();
    let mut own: Vec<String> = vec![String::new(); count];
    let mut lines = module.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let number = ["msl_kernel_", "msl_description_"].iter().find_map(|name| {
            let (before, after) = line.split_once(name)?;
            let digits = after
                .split(|letter: char| !letter.is_ascii_digit())
                .next()?;
            let declares = before.contains(".entry") || before.contains(".global");
            declares.then(|| digits.parse::<usize>().ok())?
        });
        let is_code = line.contains(".entry ") || line.contains(".func ");
        let mut item = String::from(line);
        let closes = |line: &str| match is_code {
            true => line.starts_with('}'),
            false => true,
        };
        while is_code && !item.lines().last().is_some_and(closes) {
            match lines.next() {
                Some(line) => item += line,
                None => break,
            }
        }
        match number.and_then(|number| own.get_mut(number)) {
            Some(own) => *own += &item,
            None => shared.push(item),
        }
    }
    own.iter()
        .map(|own| {
            let mut text = String::new();
            for item in &shared {
                if is_used(item, own) {
                    text += item;
                }
            }
            text + own
        })
        .collect()
}

/// Whether a kernel needs what stands beside the kernels: the head of the file, functions, and those variables that it
/// names.
fn is_used(item: &str, kernel: &str) -> bool {
    let is_variable = [".shared ", ".global "]
        .iter()
        .any(|space| item.contains(space));
    if !is_variable || item.contains(".func ") {
        return !item.trim_start().starts_with("//");
    }
    let declared = item.split(['[', ';', '=']).next().unwrap_or(item);
    match declared.split_whitespace().last() {
        Some(name) => kernel.contains(name),
        None => true,
    }
}
