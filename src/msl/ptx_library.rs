//! A Metal source as a library of PTX modules, one a kernel, each compiled when it is first asked for.

use super::cache::Cache;
use super::compiler::Compiler;
use super::error::Error;
use super::function_constants;
use super::rewrite::Program;
use super::setting::Setting;

/// A source that compiled.
pub struct PtxLibrary {
    compiler: Compiler,
    program: Program,
}

impl PtxLibrary {
    /// Compiles `source` as far as finding its errors and its kernels.
    pub fn new(source: &str) -> Result<PtxLibrary, Error> {
        let compiler = Compiler::open(Cache::open()?)?;
        let program = compiler.program(source)?;
        Ok(PtxLibrary { compiler, program })
    }

    /// The kernels' names, in the source's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.program
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
    }

    /// The module of kernel `name` with its function constants set.
    pub fn kernel(&self, name: &str, settings: &[Setting]) -> Result<String, Error> {
        let mut kernels = self.program.kernels.iter();
        let kernel = kernels.find(|kernel| kernel.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            Error::Function(format!(
                "no kernel `{name}`; the source defines {}",
                names.join(", ")
            ))
        })?;
        let constants = self.program.constants.iter();
        let values = constants
            .map(|constant| function_constants::value(constant, settings))
            .collect::<Result<Vec<_>, _>>()?;
        self.compiler.ptx(&self.program, kernel, &values)
    }
}
