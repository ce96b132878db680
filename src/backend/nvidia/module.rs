//! Metal sources as PTX modules. ironbridge's own are embedded; others are compiled when their kernels are asked for.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::Context;
use super::driver::{self, function_attribute, jit_option};
use crate::backend::fault::Fault;
use crate::backend::vtable::{FunctionInfo, Parameter, ParameterKind};
use crate::msl::error::Error;
use crate::msl::ptx::{self, Argument, ArgumentSource, Description};
use crate::msl::ptx_library::PtxLibrary;
use crate::msl::{Setting, builtin, embedded_ptx};

/// Bytes of what the driver says about a module that it refuses.
const LOG: usize = 8192;

/// A source.
pub struct Module {
    context: Arc<Context>,
    code: Code,
    names: Vec<CString>,
}

enum Code {
    /// Kernels and their modules, which the build made.
    Embedded(Vec<(String, String)>),
    Source(Box<PtxLibrary>),
}

/// A kernel that is loaded.
pub struct Function {
    context: Arc<Context>,
    module: driver::Module,
    pub handle: driver::Function,
    /// No other function has it, also after this one is gone.
    pub id: u64,
    pub name: Arc<str>,
    pub description: Description,
    pub info: FunctionInfo,
    /// Ironbridge's own kernels are given what fits.
    is_own: bool,
}

/// The class of an error of the front end.
fn fault(error: Error) -> Fault {
    match error {
        Error::NoCompiler(text) => Fault::Unsupported(text),
        Error::Host(text) => Fault::Internal(text),
        Error::Source(text) | Error::Limit(text) | Error::Function(text) => Fault::Invalid(text),
    }
}

/// The kernels of a family, which on some GPUs are kernels of their own.
fn embedded_family(name: &str, context: &Context) -> Option<Vec<(String, String)>> {
    let mut kernels = embedded_ptx::family(name)?;
    let capability = context.properties.capability;
    let variants = ptx::VARIANTS
        .iter()
        .filter(|own| own.is_for(capability) && context.overlaps());
    for variant in variants {
        let own = embedded_ptx::family(&variant.family(name));
        for own in own.into_iter().flatten() {
            if let Some(kernel) = kernels.iter_mut().find(|(name, _)| *name == own.0) {
                *kernel = own;
            }
        }
    }
    Some(kernels)
}

impl Module {
    pub fn create(context: &Arc<Context>, source: &[u8]) -> Result<Module, Fault> {
        let own = builtin::own_source_of(source);
        let embedded = own.and_then(|own| embedded_family(own.family, context));
        let code = match embedded {
            Some(kernels) => Code::Embedded(kernels),
            None => {
                let source = str::from_utf8(source)
                    .map_err(|_| Fault::Invalid(String::from("the source is not UTF-8")))?;
                Code::Source(Box::new(PtxLibrary::new(source).map_err(fault)?))
            }
        };
        let names: Vec<&str> = match &code {
            Code::Embedded(kernels) => kernels.iter().map(|(name, _)| name.as_str()).collect(),
            Code::Source(library) => library.names().collect(),
        };
        let names = names
            .into_iter()
            .map(|name| CString::new(name).unwrap_or_default());
        Ok(Module {
            context: Arc::clone(context),
            names: names.collect(),
            code,
        })
    }

    pub fn name(&self, index: usize) -> Option<&CStr> {
        self.names.get(index).map(CString::as_c_str)
    }

    /// Loads a kernel with its function constants set.
    pub fn function(&self, name: &CStr, constants: &[Setting]) -> Result<Function, Fault> {
        let name = name.to_string_lossy();
        match &self.code {
            Code::Source(library) => {
                let text = library.kernel(&name, constants).map_err(fault)?;
                Function::load(&self.context, &name, &text, false)
            }
            Code::Embedded(kernels) => match kernels.iter().find(|(kernel, _)| *kernel == name) {
                Some((_, text)) => Function::load(&self.context, &name, text, true),
                None => Err(Fault::Invalid(format!("no kernel `{name}`"))),
            },
        }
    }
}

impl Function {
    fn load(
        context: &Arc<Context>,
        name: &str,
        text: &str,
        is_own: bool,
    ) -> Result<Function, Fault> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let description = Description::read(text, 0).map_err(fault)?;
        context.still_there()?;
        let _entered = context.enter()?;
        let text = &ptx::for_gpu(text, description.max_threads, context.overlaps());
        let mut function = Function {
            context: Arc::clone(context),
            module: load(context, name, text)?,
            handle: driver::Function(ptr::null_mut()),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: Arc::from(name),
            description,
            info: FunctionInfo {
                max_total_threads_per_threadgroup: 0,
                thread_execution_width: context.properties.simd_width,
                static_threadgroup_memory: 0,
            },
            is_own,
        };
        let entry = CString::new(ptx::entry(0)).unwrap_or_default();
        // SAFETY: a place for the function, a loaded module and a C string.
        let status = unsafe {
            (context.driver.module_function)(&mut function.handle, function.module, entry.as_ptr())
        };
        context.check("cuModuleGetFunction", status)?;
        let threads = function.attribute(function_attribute::MAX_THREADS_PER_BLOCK)?;
        function.info.max_total_threads_per_threadgroup =
            threads.min(function.description.max_threads);
        function.info.static_threadgroup_memory =
            function.attribute(function_attribute::SHARED_SIZE_BYTES)?;
        function.allow_threadgroup_memory()?;
        Ok(function)
    }

    /// What a user's kernel wants bound. Dispatches of others are not checked, which takes time.
    pub fn parameters(&self) -> Option<Vec<Parameter>> {
        let arguments = self.description.arguments.iter();
        (!self.is_own).then(|| arguments.filter_map(parameter_of).collect())
    }

    /// Lets launches have all of a core's memory beside the kernel's own. Without it they have what every GPU has.
    fn allow_threadgroup_memory(&self) -> Result<(), Fault> {
        let all = self.context.properties.max_threadgroup_memory;
        let rest = all.saturating_sub(self.info.static_threadgroup_memory);
        // SAFETY: a loaded function and a known attribute.
        let status = unsafe {
            (self.context.driver.function_set)(
                self.handle,
                function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES,
                i32::try_from(rest).unwrap_or(0),
            )
        };
        self.context.check("cuFuncSetAttribute", status)
    }

    fn attribute(&self, attribute: c_int) -> Result<u32, Fault> {
        let mut value = 0;
        // SAFETY: a place for a known attribute of a function that is loaded.
        let status =
            unsafe { (self.context.driver.function_attribute)(&mut value, attribute, self.handle) };
        self.context.check("cuFuncGetAttribute", status)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

fn parameter_of(argument: &Argument) -> Option<Parameter> {
    let (kind, index, size) = match argument.source {
        ArgumentSource::None => return None,
        ArgumentSource::Buffer { index, least, .. } => (ParameterKind::Buffer, index, least),
        ArgumentSource::Value { index, bytes, .. } => (ParameterKind::Buffer, index, bytes),
        ArgumentSource::Threadgroup { index } => (ParameterKind::Threadgroup, index, 0),
    };
    Some(Parameter {
        index: u32::try_from(index).ok()?,
        kind,
        size: size as u64,
        alignment: u64::from(argument.alignment),
        readable: true,
        writable: argument.is_writable,
        texture_type: 0,
        value: 0,
    })
}

/// Lets the driver compile a module.
fn load(context: &Context, name: &str, text: &str) -> Result<driver::Module, Fault> {
    let image = CString::new(text)
        .map_err(|_| Fault::Internal(format!("the module of `{name}` has a zero in it")))?;
    let mut log = vec![0_u8; LOG];
    let options = [
        jit_option::ERROR_LOG_BUFFER,
        jit_option::ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // A value of 32 bits is passed in the pointer itself (section 6.10).
    let values: [*mut c_void; 2] = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(LOG - 1),
    ];
    let mut module = driver::Module(ptr::null_mut());
    // SAFETY: a place for the module, a C string of PTX, two options and their values: a buffer and its length.
    let status = unsafe {
        (context.driver.module_load)(
            &mut module,
            image.as_ptr().cast(),
            2,
            options.as_ptr(),
            values.as_ptr(),
        )
    };
    let checked = context.check("cuModuleLoadDataEx", status);
    let said = String::from_utf8_lossy(&log);
    let said = said.trim_end_matches('\0').trim();
    match checked {
        Ok(()) => Ok(module),
        Err(Fault::Internal(text)) => {
            Err(Fault::Internal(format!("kernel `{name}`: {text}: {said}")))
        }
        Err(other) => Err(other),
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else {
            return; // the context is gone, and its modules with it
        };
        // SAFETY: loaded once; no submission in flight uses the function.
        let status = unsafe { (self.context.driver.module_unload)(self.module) };
        // Remembers a device that is lost; there is nobody to tell anything else.
        let _ = self.context.check("cuModuleUnload", status);
    }
}
