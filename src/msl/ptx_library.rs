//! A Metal source as a library of PTX modules, one a kernel, each compiled when it is first asked for.

use super::cache::Cache;
use super::compiler::Compiler;
use super::error::Error;
use super::function_constants;
use super::rewrite::{Program, Value};
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
        // One without a value is 0, as on the software device.
        let unset = Some(Value::Unset);
        let values = function_constants::values(&self.program.constants, settings, unset)?;
        self.compiler.ptx(&self.program, kernel, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::PtxLibrary;

    #[test]
    fn a_function_constant_without_a_value_is_zero() {
        let source = "#include <metal_stdlib>\nusing namespace metal;\n\
                      constant bool more [[function_constant(0)]];\n\
                      kernel void f(device float *y [[buffer(0), function_constant(more)]], \
                      device float *x [[buffer(1)]]) { if (more) y[0] = 1; x[0] = 2; }\n";
        let library = PtxLibrary::new(source).unwrap_or_else(|error| panic!("{error}"));
        let module = library.kernel("f", &[]);
        let module = module.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(module.matches("st.global").count(), 1, "{module}");
    }

    #[test]
    fn a_kernel_with_a_texture_is_refused_and_its_neighbor_is_not() {
        let source = "#include <metal_stdlib>\nusing namespace metal;\n\
                      constant sampler s(filter::linear);\n\
                      float taken(texture2d<float> t) { return t.sample(s, float2(0), level(1)).x; }\n\
                      kernel void f(texture2d<float> t [[texture(0)]], device float *x [[buffer(0)]]) { \
                      x[0] = taken(t); }\n\
                      kernel void g(device float *x [[buffer(0)]]) { x[0] = 1; }\n";
        let library = PtxLibrary::new(source).unwrap_or_else(|error| panic!("{error}"));
        let refused = library.kernel("f", &[]).map_err(|error| error.to_string());
        assert!(
            refused
                .as_ref()
                .is_err_and(|said| said.contains("textures are not supported on this backend")),
            "{refused:?}"
        );
        assert!(library.kernel("g", &[]).is_ok());
    }
}
