//! Which kernels a Metal source stands for.
//!
//! ironbridge's own sources (`native/kernels/*.metal`) are recognised by their text and answered with the native
//! kernels of that family, unless `IRONBRIDGE_SOFT_KERNELS=msl` asks for what the text says. Every other source is
//! compiled, and so are ours for GPUs, of which there are no native kernels.

use std::ffi::CStr;
#[cfg(feature = "msl")]
use std::ffi::CString;
use std::sync::Arc;

#[cfg(feature = "msl")]
use super::metal_source;
use super::registry::{self, Kernel};
use super::rules::Rules;
#[cfg(feature = "msl")]
use crate::msl::Instrumentation;
use crate::msl::builtin::own_source_of;
use crate::msl::{self, Setting};

/// Picks what runs a kernel of ours: `native` (the default) or `msl`.
pub const KERNELS_VARIABLE: &str = "IRONBRIDGE_SOFT_KERNELS";

/// A compiled source.
#[derive(Debug)]
pub enum Library {
    /// One of ironbridge's own sources, run by native kernels.
    Native(Vec<&'static Kernel>),
    /// Metal Shading Language, with its kernels' names.
    #[cfg(feature = "msl")]
    Msl {
        library: Box<msl::Library>,
        names: Vec<CString>,
        rules: Rules,
        /// Whether the work of its kernels is counted while it is recorded.
        counts: bool,
    },
}

/// One kernel of a library. It keeps the library alive.
#[derive(Debug)]
pub struct Function {
    pub code: Code,
    #[cfg_attr(not(feature = "msl"), expect(dead_code, reason = "it is kept alive"))]
    library: Arc<Library>,
}

/// What a function runs.
#[derive(Debug)]
pub enum Code {
    Native(&'static Kernel),
    #[cfg(feature = "msl")]
    Msl(Arc<crate::backend::cpu::msl::function::Function>, Rules),
}

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    Native,
    #[cfg(feature = "msl")]
    Msl,
}

impl KernelChoice {
    pub fn from_environment() -> Result<KernelChoice, String> {
        match std::env::var_os(KERNELS_VARIABLE) {
            Some(text) => KernelChoice::parse(&text.to_string_lossy()),
            None => Ok(KernelChoice::Native),
        }
    }

    fn parse(text: &str) -> Result<KernelChoice, String> {
        match text {
            "native" => Ok(KernelChoice::Native),
            #[cfg(not(feature = "msl"))]
            "msl" => Err(format!("{KERNELS_VARIABLE} is {text:?}: {}", msl::ABSENT)),
            #[cfg(feature = "msl")]
            "msl" => Ok(KernelChoice::Msl),
            _ => Err(format!(
                "{KERNELS_VARIABLE} is {text:?}; it must be \"native\" or \"msl\""
            )),
        }
    }
}

impl Library {
    /// Compiles `source`. The error is a sentence for the user.
    pub fn compile(source: &[u8], choice: KernelChoice, rules: Rules) -> Result<Library, String> {
        let own = own_source_of(source);
        if let (Some(own), KernelChoice::Native) = (own, choice) {
            let native: Vec<_> = registry::family(own.family).collect();
            if !native.is_empty() {
                return Ok(Library::Native(native));
            }
        }
        let source = std::str::from_utf8(source).map_err(|_| "the source is not UTF-8")?;
        compile_metal(source, rules)
    }

    /// The same, and the work of its kernels is counted while it is recorded.
    pub fn counting(self) -> Library {
        match self {
            Library::Native(kernels) => Library::Native(kernels),
            #[cfg(feature = "msl")]
            Library::Msl {
                library,
                names,
                rules,
                ..
            } => Library::Msl {
                library,
                names,
                rules,
                counts: true,
            },
        }
    }

    /// The name of kernel `index`, or `None` past the last one.
    pub fn function_name(&self, index: usize) -> Option<&CStr> {
        match self {
            Library::Native(kernels) => kernels.get(index).map(|kernel| kernel.name),
            #[cfg(feature = "msl")]
            Library::Msl { names, .. } => names.get(index).map(CString::as_c_str),
        }
    }

    /// The kernel `name`. Native kernels have no function constants, and Metal ignores a value that no kernel asks for.
    pub fn function(
        self: &Arc<Library>,
        name: &CStr,
        #[cfg_attr(
            not(feature = "msl"),
            expect(unused_variables, reason = "native kernels have none")
        )]
        constants: &[Setting],
    ) -> Result<Function, String> {
        let code = match &**self {
            Library::Native(kernels) => {
                let kernel = kernels.iter().find(|kernel| kernel.name == name);
                Code::Native(
                    kernel.ok_or_else(|| format!("the library has no kernel named {name:?}"))?,
                )
            }
            #[cfg(feature = "msl")]
            Library::Msl { library, rules, .. } => {
                let name = name
                    .to_str()
                    .map_err(|_| format!("the library has no kernel named {name:?}"))?;
                let instrumentation = match msl::validation_from_environment()? {
                    true => Instrumentation::Bounds,
                    false => Instrumentation::None,
                };
                let function = library.function(name, constants, instrumentation);
                let function = function.map_err(|error| error.to_string())?;
                if *rules == Rules::Nvptx {
                    let checked = library.check_for_nvidia(name, constants);
                    checked.map_err(|error| error.to_string())?;
                }
                Code::Msl(function, *rules)
            }
        };
        Ok(Function {
            code,
            library: Arc::clone(self),
        })
    }
}

#[cfg(feature = "msl")]
impl Function {
    /// Whether its work is counted while it is recorded.
    pub fn counts(&self) -> bool {
        matches!(&*self.library, Library::Msl { counts: true, .. })
    }

    /// What runs in its place when its work is counted.
    pub fn counting(&self) -> Result<Arc<crate::backend::cpu::msl::function::Function>, String> {
        match (&self.code, &*self.library) {
            (Code::Msl(function, _), Library::Msl { library, .. }) => library
                .counting(function)
                .map_err(|error| error.to_string()),
            _ => Err(String::from("a native kernel counts nothing")),
        }
    }
}

#[cfg(feature = "msl")]
fn compile_metal(source: &str, rules: Rules) -> Result<Library, String> {
    let (library, names) = metal_source::compile(source, rules)?;
    Ok(Library::Msl {
        library,
        names,
        rules,
        counts: false,
    })
}

/// None of ours, or for a GPU.
#[cfg(not(feature = "msl"))]
fn compile_metal(_source: &str, _rules: Rules) -> Result<Library, String> {
    Err(String::from(msl::ABSENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_sources_compile_as_metal_to_the_same_kernels() {
        let mut total = 0;
        for (family, source) in crate::msl::builtin::own_metal_sources() {
            let compile = |choice| Library::compile(source.as_bytes(), choice, Rules::Own);
            let native = compile(KernelChoice::Native).expect(family);
            let msl = compile(KernelChoice::Msl).unwrap_or_else(|error| panic!("{error}"));
            let names = |library: &Library| {
                let mut names: Vec<CString> = (0..)
                    .map_while(|index| library.function_name(index).map(CString::from))
                    .collect();
                names.sort();
                names
            };
            assert_eq!(names(&msl), names(&native), "{family}.metal");
            if let Library::Native(kernels) = &native {
                total += kernels.len();
            }
            let library = Arc::new(msl);
            for name in names(&library) {
                let function = library.function(&name, &[]);
                function.unwrap_or_else(|error| panic!("{name:?}: {error}"));
            }
        }
        assert_eq!(total, registry::kernels().count());
    }

    #[test]
    fn any_other_source_is_compiled() {
        let own = crate::msl::builtin::own_sources()
            .next()
            .expect("there are sources");
        let text = own.text();
        let nearly = &text[..text.len() - 1];
        for source in [
            b"".as_slice(),
            b"kernel void user(device int *x) {}",
            nearly,
        ] {
            let library = Library::compile(source, KernelChoice::Native, Rules::Own);
            assert!(matches!(library, Ok(Library::Msl { .. })), "{library:?}");
        }
        let error =
            Library::compile(b"kernel", KernelChoice::Native, Rules::Own).expect_err("no Metal");
        assert!(error.starts_with("program_source:1:1: error: "), "{error}");
        let error =
            Library::compile(b"\xff", KernelChoice::Native, Rules::Own).expect_err("no text");
        assert!(error.contains("UTF-8"), "{error}");
    }

    #[test]
    fn the_choice_of_kernels_is_checked() {
        assert_eq!(KernelChoice::parse("native"), Ok(KernelChoice::Native));
        assert_eq!(KernelChoice::parse("msl"), Ok(KernelChoice::Msl));
        for text in ["", "Native", "fast"] {
            let error = KernelChoice::parse(text).expect_err(text);
            assert!(error.contains(KERNELS_VARIABLE), "{error}");
        }
    }

    #[test]
    fn an_unknown_function_is_named_in_the_error() {
        let own = crate::msl::builtin::own_sources()
            .next()
            .expect("there are sources");
        let library =
            Library::compile(&own.text(), KernelChoice::Native, Rules::Own).expect(own.family);
        let error = Arc::new(library)
            .function(c"no_such", &[])
            .expect_err("there is none");
        assert!(error.contains("no_such"), "{error}");
    }
}
