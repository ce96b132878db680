//! The CPU as a backend: what the device opens, and the threads that all its devices share.

use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::library::{Code, Function, KernelChoice, Library};
use super::limits::{MOST_THREADGROUP_MEMORY, THREADGROUP_MEMORY};
use super::memory::{self, Memory};
#[cfg(feature = "msl")]
use super::msl::abi::{
    ARGUMENT_BUFFER, ARGUMENT_SAMPLER, ARGUMENT_TEXTURE, ARGUMENT_THREADGROUP, Argument,
};
use super::process_machine::{usable_machine, working_machine};
use super::report::SoftwareDevice;
use super::rules::Rules;
use super::stream::Stream;
use super::threads::affinity::PinError;
use super::threads::thread_pool;
use super::weights::Weights;
use crate::backend::fault::Fault;
use crate::backend::ffi::backend::soft_outcome;
use crate::backend::symbol;
#[cfg(feature = "msl")]
use crate::backend::vtable::ParameterKind;
use crate::backend::vtable::{
    Backend, Capabilities, FunctionInfo, HostPages, Parameter, Storage, report,
};
use crate::msl::{self, Setting};

/// What the bridge takes GPUs of Apple's to have.
const CORES_OF_APPLE: u32 = 8;

/// One opened device. All of them share the process's machine.
#[derive(Default)]
pub struct Cpu {
    /// Of the GPU that it stands for.
    cores: u32,
    /// Of a threadgroup, in bytes, where it is not what Apple's GPUs have.
    threadgroup_memory: Option<u32>,
    /// Of its sources, and of what they compute.
    rules: Rules,
    /// Whether the work of its kernels, which then are those of Metal source, is counted while it is recorded.
    counts: bool,
}

impl Cpu {
    /// `options`: `cores=N`, to be given the kernels that a GPU of N cores is given, for tests of these;
    /// `threadgroup_memory=N`, to have N KiB of it, as other GPUs have; `strict=apple`, to hold sources to Apple's
    /// rules and to be given the kernels that an Apple GPU is given; `also=nvptx`, whose kernels must compile for
    /// NVIDIA's GPUs; `count=1`, whose kernels are those of Metal source, and their work is counted while it is
    /// recorded (`work`).
    pub fn with_options(options: &str) -> Result<Cpu, Fault> {
        let mut cpu = Cpu::default();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').ok_or_else(|| {
                Fault::Invalid(format!("'{option}' is not of the form KEY=VALUE"))
            })?;
            match key {
                "cores" => {
                    cpu.cores = value.parse().map_err(|_| {
                        Fault::Invalid(format!("cores: '{value}' is not a number of cores"))
                    })?;
                }
                "threadgroup_memory" => {
                    let sizes = THREADGROUP_MEMORY >> 10..=MOST_THREADGROUP_MEMORY >> 10;
                    let size = value.parse().ok().filter(|size| sizes.contains(size));
                    let size: u32 = size.ok_or_else(|| {
                        let (least, most) = (sizes.start(), sizes.end());
                        Fault::Invalid(format!(
                            "threadgroup_memory: '{value}' is not a number of KiB from {least} to {most}"
                        ))
                    })?;
                    cpu.threadgroup_memory = Some(size << 10);
                }
                "strict" if value == "apple" => cpu.rules = Rules::Apple,
                #[cfg(feature = "msl")]
                "count" if value == "1" => cpu.counts = true,
                "also" if value == "nvptx" => cpu.rules = Rules::Nvptx,
                _ => return Err(Fault::Invalid(format!("there is no key '{key}'"))),
            }
        }
        if cpu.rules == Rules::Apple && cpu.cores == 0 {
            cpu.cores = CORES_OF_APPLE;
        }
        Ok(cpu)
    }

    /// Kernels for GPUs, and those from source, read plain rows.
    fn packs_weights(&self) -> bool {
        self.cores == 0 && self.kernels() == Ok(KernelChoice::Native)
    }

    /// What runs kernels of ours: on a strict device their source, with Apple's arithmetic, where it can be compiled.
    fn kernels(&self) -> Result<KernelChoice, Fault> {
        match self.rules {
            #[cfg(feature = "msl")]
            _ if self.counts => Ok(KernelChoice::Msl),
            #[cfg(feature = "msl")]
            Rules::Apple => Ok(KernelChoice::Msl),
            _ => KernelChoice::from_environment().map_err(Fault::Invalid),
        }
    }
}

impl Backend for Cpu {
    type Buffer = Memory;
    type Module = Library;
    type Function = Function;
    type Stream = Stream;

    fn capabilities(&self) -> Capabilities {
        let memory = memory::of_machine();
        Capabilities {
            name: processor_name(),
            memory,
            working_set: memory / 4 * 3,
            max_buffer_length: memory / 2,
            page_size: memory::page_size(),
            max_threads_per_threadgroup: 1024,
            max_threadgroup_memory: self.threadgroup_memory.unwrap_or(THREADGROUP_MEMORY),
            simd_width: 32,
            cores: self.cores,
            unified: true,
            imports: true,
            packs_weights: self.packs_weights(),
            textures: cfg!(feature = "msl"),
            indirect: true,
        }
    }

    fn report(&self) -> String {
        let found = SoftwareDevice::find();
        let mut report = format!("processor: {}\n", processor_name());
        let _ = writeln!(report, "instruction set: {}", found.instruction_set);
        let _ = match found.threads {
            Ok(threads) => writeln!(report, "threads: {threads}"),
            Err(error) => writeln!(report, "threads: {error}"),
        };
        let _ = match found.compiler {
            Ok(compiler) => writeln!(report, "Metal compiler: {}", compiler.path.display()),
            Err(error) => writeln!(report, "Metal compiler: {error}"),
        };
        report
    }

    fn wait_budget(&self) -> Duration {
        working_machine().map_or(Duration::ZERO, |machine| machine.pool.spin_budget())
    }

    fn create_buffer(self: &Arc<Cpu>, length: u64, storage: Storage) -> Result<Memory, Fault> {
        match storage {
            Storage::Shared | Storage::Private => Memory::new(length, storage),
            Storage::Weights => {
                let weights = Weights::new(usable_machine()?, self.packs_weights());
                Memory::for_weights(length, weights)
            }
        }
    }

    fn import_buffer(self: &Arc<Cpu>, pages: HostPages) -> Result<Memory, Fault> {
        Memory::imported(&pages)
    }

    fn create_module(self: &Arc<Cpu>, source: &[u8]) -> Result<Library, Fault> {
        usable_machine()?;
        let library = Library::compile(source, self.kernels()?, self.rules).map_err(|text| {
            match msl::has_compiler() {
                true => Fault::Invalid(text),
                false => Fault::Unsupported(text),
            }
        })?;
        Ok(match self.counts {
            true => library.counting(),
            false => library,
        })
    }

    fn function_name(module: &Library, index: usize) -> Option<&CStr> {
        module.function_name(index)
    }

    fn create_function(
        module: &Arc<Library>,
        name: &CStr,
        constants: &[Setting],
    ) -> Result<Function, Fault> {
        module.function(name, constants).map_err(Fault::Invalid)
    }

    fn describe_function(function: &Function) -> FunctionInfo {
        let (max_total_threads_per_threadgroup, static_threadgroup_memory) = match &function.code {
            #[cfg(feature = "msl")]
            Code::Msl(function, _) => (function.max_total_threads(), function.variable_bytes()),
            Code::Native(_) => (1024, 0),
        };
        FunctionInfo {
            max_total_threads_per_threadgroup,
            thread_execution_width: 32,
            static_threadgroup_memory,
        }
    }

    fn parameters(function: &Function) -> Option<Vec<Parameter>> {
        match &function.code {
            Code::Native(_) => None, // they check their bindings themselves
            #[cfg(feature = "msl")]
            Code::Msl(function, _) => Some(
                function
                    .arguments()
                    .iter()
                    .flat_map(parameters_of)
                    .collect(),
            ),
        }
    }

    fn create_stream(self: &Arc<Cpu>) -> Result<Stream, Fault> {
        Stream::new()
    }
}

symbol::define!("soft_cpu_threads", threads: extern "C" fn() -> u32);
symbol::define!(
    "soft_cpu_set_threads",
    set_threads: unsafe extern "C" fn(u32, *mut *mut c_char) -> soft_outcome
);
symbol::define!(
    "soft_cpu_pin_threads",
    pin_threads: unsafe extern "C" fn(*const u32, usize, *mut *mut c_char) -> soft_outcome
);

/// `soft_cpu_threads` of `cpu.h`.
extern "C" fn threads() -> u32 {
    working_machine().map_or(1, |machine| machine.pool.threads() as u32)
}

/// `soft_cpu_set_threads` of `cpu.h`.
unsafe extern "C" fn set_threads(threads: u32, text: *mut *mut c_char) -> soft_outcome {
    let change = || {
        let machine = usable_machine()?;
        if !(1..=thread_pool::MAX_THREADS).contains(&(threads as usize)) {
            let most = thread_pool::MAX_THREADS;
            return Err(Fault::Invalid(format!("{threads} is not from 1 to {most}")));
        }
        match machine.pool.set_threads(threads as usize) {
            given if given == threads as usize => Ok(()),
            given => Err(Fault::OutOfMemory(format!(
                "the system gave {given} of {threads} threads"
            ))),
        }
    };
    // SAFETY: cpu.h: NULL or a place for the text.
    unsafe { report(text, change) }
}

/// `soft_cpu_pin_threads` of `cpu.h`.
unsafe extern "C" fn pin_threads(
    processors: *const u32,
    count: usize,
    text: *mut *mut c_char,
) -> soft_outcome {
    let change = || {
        let processors = match processors.is_null() {
            true => &[],
            // SAFETY: cpu.h: `count` numbers.
            false => unsafe { slice::from_raw_parts(processors, count) },
        };
        let places: Vec<usize> = processors.iter().map(|place| *place as usize).collect();
        let pool = &usable_machine()?.pool;
        pool.pin(&places).map_err(|error| match error {
            PinError::Unknown(text) => Fault::Invalid(text),
            PinError::Unsupported(text) => Fault::Unsupported(text),
        })
    };
    // SAFETY: cpu.h: NULL or a place for the text.
    unsafe { report(text, change) }
}

/// What the processor calls itself.
#[cfg(target_os = "macos")]
fn processor_name() -> String {
    let mut text = [0u8; 256];
    let mut length = text.len();
    // SAFETY: a NUL-terminated name and a buffer of `length` bytes; nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"machdep.cpu.brand_string".as_ptr(),
            text.as_mut_ptr().cast(),
            &mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    CStr::from_bytes_until_nul(&text)
        .ok()
        .filter(|name| status == 0 && !name.is_empty())
        .map_or_else(
            || String::from(std::env::consts::ARCH),
            |name| name.to_string_lossy().into_owned(),
        )
}

/// What the processor calls itself. An ARM Linux does not say: then the architecture.
#[cfg(not(target_os = "macos"))]
fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map(|(_, name)| name.trim());
    String::from(name.unwrap_or(std::env::consts::ARCH))
}

/// Of an array of textures each is a parameter.
#[cfg(feature = "msl")]
fn parameters_of(argument: &Argument) -> Vec<Parameter> {
    let kind = match argument.kind {
        ARGUMENT_BUFFER => ParameterKind::Buffer,
        ARGUMENT_THREADGROUP => ParameterKind::Threadgroup,
        ARGUMENT_TEXTURE => ParameterKind::Texture,
        ARGUMENT_SAMPLER => ParameterKind::Sampler,
        _ => return Vec::new(),
    };
    let is_memory = matches!(kind, ParameterKind::Buffer | ParameterKind::Threadgroup);
    let each = |place| Parameter {
        index: argument.index.saturating_add(place),
        kind,
        size: argument.size,
        alignment: argument.alignment,
        readable: is_memory || argument.readable != 0,
        writable: argument.writable != 0,
        texture_type: argument.texture_kind,
        value: argument.value,
    };
    (0..argument.count.max(1)).map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_is() {
        let capabilities = Cpu::default().capabilities();
        assert!(!capabilities.name.is_empty());
        assert!(capabilities.working_set < capabilities.memory && capabilities.unified);
        let report = Cpu::default().report();
        for key in [
            "processor: ",
            "instruction set: ",
            "threads: ",
            "Metal compiler: ",
        ] {
            assert!(report.contains(key), "{report}");
        }
    }

    #[test]
    fn options_that_nobody_knows_are_errors() {
        assert!(Cpu::with_options("").is_ok());
        let gpu = Cpu::with_options("cores=132").map(|cpu| cpu.capabilities().cores);
        assert_eq!(gpu.ok(), Some(132));
        for (options, said) in [
            ("color=red", "'color'"),
            ("nonsense", "KEY=VALUE"),
            ("cores=many", "'many'"),
            ("count=2", "'count'"),
            ("threadgroup_memory=31", "from 32 to 256"),
            ("threadgroup_memory=1M", "'1M'"),
        ] {
            let refused = Cpu::with_options(options).err();
            assert!(
                matches!(&refused, Some(Fault::Invalid(text)) if text.contains(said)),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn what_does_not_compile_says_where() {
        let cpu = Arc::new(Cpu::default());
        let refused = cpu.create_module(b"kernel").err();
        assert!(
            matches!(&refused, Some(Fault::Invalid(text)) if text.starts_with("program_source:1:1: error: ")),
            "{refused:?}"
        );
    }
}
