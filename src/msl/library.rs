//! A Metal source as a library of kernels, each compiled when it is first asked for.

use std::fs;
use std::sync::{Arc, Mutex};

use super::cache::{Cache, Entry};
use super::compiler::Compiler;
use super::error::Error;
use super::function_constants;
use super::rewrite::{Program, Value};
use super::scratch::Scratch;
use super::setting::Setting;
use super::target::Instrumentation;
use crate::backend::cpu::msl::function::Function;

/// A source that compiled.
pub struct Library {
    compiler: Compiler,
    program: Program,
    functions: Mutex<Vec<(Wanted, Arc<Function>)>>,
    /// Apple's rules hold: a function constant that is not set is an error where a kernel uses it, and else 0; and no
    /// threadgroup has more threads than there are registers for.
    as_apple: bool,
}

/// What distinguishes one compiled function from another.
#[derive(Clone, PartialEq)]
struct Wanted {
    kernel: usize,
    values: Vec<Option<Value>>,
    instrumentation: Instrumentation,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

impl Library {
    /// Compiles `source` as far as finding its errors and its kernels, by at most this number of `processes` at once.
    pub fn new(source: &str, processes: usize) -> Result<Library, Error> {
        Library::with_cache(source, processes, Cache::open()?)
    }

    /// The same, and refuses what Apple's compiler would.
    pub fn as_apple(source: &str, processes: usize) -> Result<Library, Error> {
        let mut library = Library::new(source, processes)?;
        library.as_apple = true;
        super::apple_rules::check(&library.compiler, source)?;
        Ok(library)
    }

    pub fn with_cache(source: &str, processes: usize, cache: Cache) -> Result<Library, Error> {
        let compiler = Compiler::open(cache)?.with_processes(processes);
        let program = compiler.program(source)?;
        Ok(Library {
            compiler,
            program,
            functions: Mutex::new(Vec::new()),
            as_apple: false,
        })
    }

    /// The kernels' names, in the source's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.program
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
    }

    /// The kernel `name` with its function constants set, compiled now unless it was before.
    pub fn function(
        &self,
        name: &str,
        settings: &[Setting],
        instrumentation: Instrumentation,
    ) -> Result<Arc<Function>, Error> {
        self.wanted(Wanted {
            kernel: self.position(name)?,
            values: self.values(settings)?,
            instrumentation,
        })
    }

    /// What counts the work of a function of this library.
    pub fn counting(&self, function: &Arc<Function>) -> Result<Arc<Function>, Error> {
        let known = self.lock();
        let wanted = known
            .iter()
            .find(|(_, other)| Arc::ptr_eq(other, function))
            .map(|(wanted, _)| Wanted {
                instrumentation: Instrumentation::Work,
                ..wanted.clone()
            });
        drop(known);
        self.wanted(
            wanted.ok_or_else(|| {
                Error::Host(format!("{}: it is of another library", function.name()))
            })?,
        )
    }

    fn wanted(&self, wanted: Wanted) -> Result<Arc<Function>, Error> {
        let known = |functions: &[(Wanted, Arc<Function>)]| {
            functions
                .iter()
                .find(|(other, _)| *other == wanted)
                .map(|(_, function)| function.clone())
        };
        if let Some(function) = known(&self.lock()) {
            return Ok(function);
        }
        let compiled = &self.program.kernels[wanted.kernel];
        let name = compiled.name.as_str();
        let instrumentation = wanted.instrumentation;
        let entry =
            self.compiler
                .kernel(&self.program, compiled, &wanted.values, instrumentation)?;
        // Apple's compiler makes a kernel fit the number that it states.
        let most_threads = match self.as_apple && !compiled.states_threads() {
            true => self
                .compiler
                .most_threads(&self.program, compiled, &wanted.values),
            false => u32::MAX,
        };
        let checks = instrumentation != Instrumentation::None;
        let function = match entry {
            Entry::Kept(path) => Function::load(&path, name, checks)?,
            Entry::Unkept(bytes) => Scratch::anywhere(|scratch| {
                let path = scratch.path().join("library");
                fs::write(&path, &bytes).map_err(|error| Error::host(path.display(), error))?;
                Function::load(&path, name, checks)
            })?,
        };
        let function = Arc::new(function.with_most_threads(most_threads));
        let mut functions = self.lock();
        if let Some(function) = known(&functions) {
            return Ok(function); // another thread was faster
        }
        functions.push((wanted, function.clone()));
        Ok(function)
    }

    /// Compiles kernel `name` for NVIDIA's GPUs, to see whether it does.
    pub fn check_for_nvidia(&self, name: &str, settings: &[Setting]) -> Result<(), Error> {
        let kernel = &self.program.kernels[self.position(name)?];
        let values = self.values(settings)?;
        let module = self.compiler.ptx(&self.program, kernel, &values);
        module.map(drop)
    }

    fn position(&self, name: &str) -> Result<usize, Error> {
        let mut kernels = self.program.kernels.iter();
        kernels
            .position(|kernel| kernel.name == name)
            .ok_or_else(|| Error::Function(self.no_such_kernel(name)))
    }

    /// Of the function constants, in their order.
    fn values(&self, settings: &[Setting]) -> Result<Vec<Option<Value>>, Error> {
        let unset = (!self.as_apple).then_some(Value::Unset);
        function_constants::values(&self.program.constants, settings, unset)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Wanted, Arc<Function>)>> {
        self.functions
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn no_such_kernel(&self, name: &str) -> String {
        let mut skipped = self.program.skipped.iter();
        if let Some(function) = skipped.find(|function| function.name == name) {
            return format!(
                "`{name}` is a {} function, and this device computes only",
                function.stage
            );
        }
        let names: Vec<&str> = self.names().collect();
        match names.is_empty() {
            true => format!("no kernel `{name}`: the source defines none"),
            false => format!(
                "no kernel `{name}`; the source defines {}",
                names.join(", ")
            ),
        }
    }
}
