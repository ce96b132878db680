//! NVIDIA's GPUs as a backend.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::context::{self, Context};
use super::driver::{self, Driver};
use super::memory::{Buffer, Managed};
use super::module::{Function, Module};
use super::stream::Stream;
use crate::backend::fault::Fault;
use crate::backend::time_limit::DISPATCH;
use crate::backend::vtable::{self, Capabilities, FunctionInfo, HostPages, Parameter, Storage};
use crate::msl::{Setting, compiler, embedded_ptx};

/// An open GPU.
pub struct Nvidia {
    context: Arc<Context>,
    managed: Arc<Managed>,
    index: u32,
}

/// The driver, loaded once a process.
fn driver() -> Result<Arc<Driver>, Fault> {
    static LOADED: Mutex<Option<Arc<Driver>>> = Mutex::new(None);
    let mut loaded = LOADED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(driver) = &*loaded {
        return Ok(Arc::clone(driver));
    }
    let driver = Arc::new(Driver::open(Path::new(driver::LIBRARY))?);
    *loaded = Some(Arc::clone(&driver));
    Ok(driver)
}

/// How many GPUs there are. None when the driver does not say.
pub fn count() -> u32 {
    driver()
        .and_then(|driver| context::count(&driver))
        .unwrap_or(0)
}

impl Nvidia {
    /// `options`: the number of the GPU, or nothing for the first one.
    pub fn open(options: &str) -> Result<Nvidia, Fault> {
        let index = match options {
            "" => 0,
            number => number.parse().map_err(|_| {
                Fault::Invalid(format!(
                    "{number:?} is not the number of a GPU, as in nvidia:1"
                ))
            })?,
        };
        let limit = DISPATCH.of_environment().map_err(Fault::Invalid)?;
        Nvidia::with_driver(driver()?, index, limit)
    }

    /// `limit`: how long a submission may take.
    pub fn with_driver(
        driver: Arc<Driver>,
        index: u32,
        limit: Option<Duration>,
    ) -> Result<Nvidia, Fault> {
        Ok(Nvidia {
            context: Context::open(driver, index, limit)?,
            managed: Arc::default(),
            index,
        })
    }
}

impl vtable::Backend for Nvidia {
    type Buffer = Buffer;
    type Module = Module;
    type Function = Function;
    type Stream = Stream;

    fn capabilities(&self) -> Capabilities {
        let properties = &self.context.properties;
        Capabilities {
            name: properties.name.clone(),
            memory: properties.memory,
            working_set: properties.memory / 8 * 7,
            max_buffer_length: properties.memory / 8 * 7,
            page_size: page_size(),
            max_threads_per_threadgroup: properties.max_threads_per_threadgroup,
            max_threadgroup_memory: properties.max_threadgroup_memory,
            simd_width: properties.simd_width,
            cores: properties.cores,
            unified: false,
            imports: properties.registers,
            packs_weights: false,
            textures: false,
            indirect: false,
        }
    }

    fn report(&self) -> String {
        let properties = &self.context.properties;
        let (major, minor) = properties.capability;
        let own = match embedded_ptx::count() {
            0 => String::from("compiled when they are used"),
            count => format!("{count} embedded"),
        };
        let clang = match compiler() {
            Ok(found) => found.version,
            Err(_) => String::from("none"),
        };
        let shared = match properties.has_managed_memory {
            true => "pinned, and managed where it is long",
            false => "pinned",
        };
        let lines = [
            format!("GPU: {} ({})", properties.name, self.index),
            format!("compute capability: {major}.{minor}"),
            format!("cores: {}", properties.cores),
            format!("own kernels: {own}"),
            format!("compiler: {clang}"),
            format!("shared memory: {shared}"),
        ];
        lines.join("\n") + "\n"
    }

    fn create_buffer(self: &Arc<Self>, length: u64, storage: Storage) -> Result<Buffer, Fault> {
        Buffer::create(&self.context, &self.managed, length, storage)
    }

    fn import_buffer(self: &Arc<Self>, pages: HostPages) -> Result<Buffer, Fault> {
        Buffer::import(&self.context, &self.managed, &pages)
    }

    fn create_module(self: &Arc<Self>, source: &[u8]) -> Result<Module, Fault> {
        Module::create(&self.context, source)
    }

    fn function_name(module: &Module, index: usize) -> Option<&CStr> {
        module.name(index)
    }

    fn create_function(
        module: &Arc<Module>,
        name: &CStr,
        constants: &[Setting],
    ) -> Result<Function, Fault> {
        module.function(name, constants)
    }

    fn describe_function(function: &Function) -> FunctionInfo {
        function.info
    }

    fn parameters(function: &Function) -> Option<Vec<Parameter>> {
        function.parameters()
    }

    fn create_stream(self: &Arc<Self>) -> Result<Stream, Fault> {
        Stream::create(&self.context)
    }
}

fn page_size() -> u64 {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}
