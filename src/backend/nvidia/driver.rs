//! The CUDA driver API, as far as it is used here, from libcuda.so.1 at run time. Declarations follow NVIDIA's "CUDA
//! Driver API Reference Manual" (docs.nvidia.com/cuda/cuda-driver-api), version 11.5, whose section each one names.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::fault::Fault;

/// The first driver that takes PTX 7.5 (CUDA 11.5; PTX ISA, release notes).
const OLDEST: c_int = 11050;

pub const LIBRARY: &str = "libcuda.so.1";

/// `CUresult`.
pub type Status = c_int;
/// `CUdeviceptr`.
pub type Address = u64;

macro_rules! handles {
    ($($name:ident),+ $(,)?) => {$(
        /// An opaque handle of the driver's, which any thread may use (section 2 of the programming guide's appendix on
        /// the driver API: handles belong to a context and not to a thread).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub *mut c_void);

        // SAFETY: a name of something in the driver, which locks what it needs.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )+};
}
handles!(
    Context, Stream, Event, Module, Function, Graph, GraphExec, GraphNode
);

impl Stream {
    /// The stream of calls that name none.
    pub const DEFAULT: Stream = Stream(ptr::null_mut());
}

/// `CUDA_KERNEL_NODE_PARAMS` (section 4.3).
#[repr(C)]
pub struct KernelNode {
    pub function: Function,
    pub groups: [c_uint; 3],
    pub threads: [c_uint; 3],
    pub shared: c_uint,
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

/// `CUgraphEdgeData` (section 4.3 of version 12.3).
#[repr(C)]
pub struct Edge {
    pub from_port: u8,
    pub to_port: u8,
    pub kind: u8,
    pub reserved: [u8; 5],
}

impl Edge {
    /// From where a kernel allows its successor to that one's start: `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`,
    /// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
    pub const OVERLAPPING: Edge = Edge {
        from_port: 1,
        to_port: 0,
        kind: 1,
        reserved: [0; 5],
    };
}

pub type Depend = unsafe extern "C" fn(
    graph: Graph,
    from: *const GraphNode,
    to: *const GraphNode,
    edges: *const Edge,
    count: usize,
) -> Status;

macro_rules! functions {
    ($($field:ident = $symbol:literal, $section:literal ($($argument:ident: $type:ty),* $(,)?);)+) => {
        /// The functions of a driver.
        pub struct Driver {
            $(
                #[doc = concat!("`", $symbol, "`, section ", $section)]
                pub $field: unsafe extern "C" fn($($type),*) -> Status,
            )+
            /// `cuGraphAddDependencies_v2`, section 6.22 of version 12.3, where the driver has it.
            pub graph_depend: Option<Depend>,
            /// Numbers of GPUs that execute a kernel without end, and what was said of each.
            pub endless: Mutex<Vec<(u32, String)>>,
        }

        impl Driver {
            fn of(library: &Library) -> Result<Driver, Fault> {
                Ok(Driver {
                    $($field: {
                        let symbol = library.symbol($symbol)?;
                        // SAFETY: the manual's declaration of the function of this name.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> Status>(symbol)
                        }
                    },)+
                    // SAFETY: as above.
                    graph_depend: library.symbol("cuGraphAddDependencies_v2").ok().map(|symbol| unsafe {
                        std::mem::transmute::<*mut c_void, Depend>(symbol)
                    }),
                    endless: Mutex::default(),
                })
            }
        }
    };
}

functions! {
    error_string = "cuGetErrorString", "6.1" (status: Status, text: *mut *const c_char);
    init = "cuInit", "6.2" (flags: c_uint);
    driver_version = "cuDriverGetVersion", "6.3" (version: *mut c_int);
    device_count = "cuDeviceGetCount", "6.5" (count: *mut c_int);
    device_get = "cuDeviceGet", "6.5" (device: *mut c_int, ordinal: c_int);
    device_name = "cuDeviceGetName", "6.5" (name: *mut c_char, length: c_int, device: c_int);
    device_attribute = "cuDeviceGetAttribute", "6.5" (value: *mut c_int, attribute: c_int, device: c_int);
    device_memory = "cuDeviceTotalMem_v2", "6.5" (bytes: *mut usize, device: c_int);
    context_retain = "cuDevicePrimaryCtxRetain", "6.7" (context: *mut Context, device: c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2", "6.7" (device: c_int);
    context_push = "cuCtxPushCurrent_v2", "6.8" (context: Context);
    context_pop = "cuCtxPopCurrent_v2", "6.8" (context: *mut Context);
    module_load = "cuModuleLoadDataEx", "6.10" (module: *mut Module, image: *const c_void, count: c_uint,
        options: *const c_int, values: *const *mut c_void);
    module_unload = "cuModuleUnload", "6.10" (module: Module);
    module_function = "cuModuleGetFunction", "6.10" (function: *mut Function, module: Module, name: *const c_char);
    memory_info = "cuMemGetInfo_v2", "6.11" (free: *mut usize, total: *mut usize);
    memory_allocate = "cuMemAlloc_v2", "6.11" (address: *mut Address, bytes: usize);
    memory_allocate_managed = "cuMemAllocManaged", "6.11" (address: *mut Address, bytes: usize, flags: c_uint);
    memory_free = "cuMemFree_v2", "6.11" (address: Address);
    host_allocate = "cuMemHostAlloc", "6.11" (pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost", "6.11" (pointer: *mut c_void);
    host_register = "cuMemHostRegister_v2", "6.11" (pointer: *mut c_void, bytes: usize, flags: c_uint);
    host_unregister = "cuMemHostUnregister", "6.11" (pointer: *mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2", "6.11" (address: *mut Address, pointer: *mut c_void, flags: c_uint);
    copy_to_device = "cuMemcpyHtoD_v2", "6.11" (to: Address, from: *const c_void, bytes: usize);
    copy_to_host = "cuMemcpyDtoH_v2", "6.11" (to: *mut c_void, from: Address, bytes: usize);
    copy_on_stream = "cuMemcpyAsync", "6.11" (to: Address, from: Address, bytes: usize, stream: Stream);
    set_bytes = "cuMemsetD8_v2", "6.11" (to: Address, value: u8, bytes: usize);
    set_on_stream = "cuMemsetD8Async", "6.11" (to: Address, value: u8, bytes: usize, stream: Stream);
    stream_create = "cuStreamCreate", "6.15" (stream: *mut Stream, flags: c_uint);
    stream_destroy = "cuStreamDestroy_v2", "6.15" (stream: Stream);
    stream_synchronize = "cuStreamSynchronize", "6.15" (stream: Stream);
    event_create = "cuEventCreate", "6.16" (event: *mut Event, flags: c_uint);
    event_destroy = "cuEventDestroy_v2", "6.16" (event: Event);
    event_record = "cuEventRecord", "6.16" (event: Event, stream: Stream);
    event_query = "cuEventQuery", "6.16" (event: Event);
    function_attribute = "cuFuncGetAttribute", "6.19" (value: *mut c_int, attribute: c_int, function: Function);
    function_set = "cuFuncSetAttribute", "6.19" (function: Function, attribute: c_int, value: c_int);
    launch = "cuLaunchKernel", "6.19" (function: Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Stream,
        parameters: *mut *mut c_void, extra: *mut *mut c_void);
    graph_create = "cuGraphCreate", "6.22" (graph: *mut Graph, flags: c_uint);
    graph_add = "cuGraphAddKernelNode", "6.22" (node: *mut GraphNode, graph: Graph, before: *const GraphNode,
        count: usize, launch: *const KernelNode);
    graph_instantiate = "cuGraphInstantiateWithFlags", "6.22" (executable: *mut GraphExec, graph: Graph, flags: u64);
    graph_change = "cuGraphExecKernelNodeSetParams", "6.22" (executable: GraphExec, node: GraphNode,
        launch: *const KernelNode);
    graph_launch = "cuGraphLaunch", "6.22" (executable: GraphExec, stream: Stream);
    graph_exec_destroy = "cuGraphExecDestroy", "6.22" (executable: GraphExec);
    graph_destroy = "cuGraphDestroy", "6.22" (graph: Graph);
}

/// `CUdevice_attribute` (section 4.2).
pub mod device_attribute {
    use std::ffi::c_int;
    pub const MAX_THREADS_PER_BLOCK: c_int = 1;
    /// What kernels may have that ask for it.
    pub const MAX_SHARED_MEMORY_ON_REQUEST: c_int = 97;
    pub const WARP_SIZE: c_int = 10;
    pub const MULTIPROCESSOR_COUNT: c_int = 16;
    pub const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub const COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub const CONCURRENT_MANAGED_ACCESS: c_int = 89;
    pub const HOST_REGISTER_SUPPORTED: c_int = 99;
}

/// `CUfunction_attribute` (section 4.2).
pub mod function_attribute {
    use std::ffi::c_int;
    pub const MAX_THREADS_PER_BLOCK: c_int = 0;
    pub const SHARED_SIZE_BYTES: c_int = 1;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
}

/// `CUjit_option` (section 4.2).
pub mod jit_option {
    use std::ffi::c_int;
    pub const ERROR_LOG_BUFFER: c_int = 5;
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
}

/// `CU_MEM_ATTACH_GLOBAL`: every stream may use managed memory.
pub const ATTACH_GLOBAL: c_uint = 1;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
pub const HOST_MAPPED: c_uint = 1 | 2;
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
pub const REGISTER_MAPPED: c_uint = 1 | 2;
/// `CU_STREAM_NON_BLOCKING`: no order with the program's own default stream.
pub const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const DISABLE_TIMING: c_uint = 2;

/// `CUresult` (section 4.2), those that mean something else than a bug.
pub mod status {
    use super::Status;
    pub const SUCCESS: Status = 0;
    pub const OUT_OF_MEMORY: Status = 2;
    pub const DEINITIALIZED: Status = 4;
    pub const DEVICE_UNAVAILABLE: Status = 46;
    pub const NO_DEVICE: Status = 100;
    pub const INVALID_IMAGE: Status = 200;
    pub const NO_BINARY_FOR_GPU: Status = 209;
    pub const INVALID_PTX: Status = 218;
    pub const UNSUPPORTED_PTX_VERSION: Status = 222;
    pub const NOT_READY: Status = 600;
    pub const ILLEGAL_ADDRESS: Status = 700;
    pub const LAUNCH_OUT_OF_RESOURCES: Status = 701;
    pub const LAUNCH_TIMEOUT: Status = 702;
    pub const NOT_SUPPORTED: Status = 801;
    pub const SYSTEM_NOT_READY: Status = 802;
    pub const SYSTEM_DRIVER_MISMATCH: Status = 803;
}

/// A loaded library, which stays loaded: the driver has threads of its own.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Result<Library, Fault> {
        let name = CString::new(path.as_os_str().as_encoded_bytes());
        let name =
            name.map_err(|_| Fault::Invalid(String::from("a library's name has a zero in it")))?;
        // SAFETY: a C string. Initializers of the driver's library are as trustworthy as the system's own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match handle.is_null() {
            false => Ok(Library(handle)),
            true => Err(Fault::Unsupported(format!(
                "there is no NVIDIA driver: {}",
                last_loader_error()
            ))),
        }
    }

    fn symbol(&self, name: &str) -> Result<*mut c_void, Fault> {
        let found = CString::new(name).map(|name| {
            // SAFETY: an open library and a C string.
            unsafe { libc::dlsym(self.0, name.as_ptr()) }
        });
        match found {
            Ok(symbol) if !symbol.is_null() => Ok(symbol),
            _ => Err(Fault::Unsupported(format!(
                "the NVIDIA driver has no {name}: it is older than 495, or no driver"
            ))),
        }
    }
}

fn last_loader_error() -> String {
    // SAFETY: no preconditions; the text is this thread's until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => String::from(LIBRARY),
        // SAFETY: a C string, as above.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    }
}

impl Driver {
    /// GPUs that execute a kernel without end.
    pub fn endless(&self) -> MutexGuard<'_, Vec<(u32, String)>> {
        self.endless.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads and starts the driver.
    pub fn open(path: &Path) -> Result<Driver, Fault> {
        let driver = Driver::of(&Library::open(path)?)?;
        driver.start()?;
        Ok(driver)
    }

    /// Starts it, once a process, and looks how old it is.
    pub fn start(&self) -> Result<(), Fault> {
        // SAFETY: the flags must be 0.
        self.check("cuInit", unsafe { (self.init)(0) })?;
        let mut version = 0;
        // SAFETY: a place for the version.
        self.check("cuDriverGetVersion", unsafe {
            (self.driver_version)(&mut version)
        })?;
        match version < OLDEST {
            false => Ok(()),
            true => Err(Fault::Unsupported(format!(
                "the NVIDIA driver is too old: it is of CUDA {}.{}, and 11.5 (driver 495) is needed",
                version / 1000,
                version % 1000 / 10
            ))),
        }
    }

    /// The error that a call returned, if it did.
    pub fn check(&self, what: &str, status: Status) -> Result<(), Fault> {
        match status {
            status::SUCCESS => Ok(()),
            _ => Err(self.fault(what, status)),
        }
    }

    /// What a status means for a user.
    pub fn fault(&self, what: &str, status: Status) -> Fault {
        let said = self.text(status);
        match status {
            status::OUT_OF_MEMORY => {
                Fault::OutOfMemory(format!("the GPU's memory is full ({said})"))
            }
            status::NO_DEVICE => Fault::Unsupported(String::from(
                "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it",
            )),
            status::DEVICE_UNAVAILABLE | status::SYSTEM_NOT_READY => {
                Fault::Unsupported(format!("the GPU cannot be used now: {said}"))
            }
            status::SYSTEM_DRIVER_MISMATCH => Fault::Unsupported(format!(
                "the NVIDIA driver's library and its kernel module are of different versions: {said}"
            )),
            status::NOT_SUPPORTED => Fault::Unsupported(format!("{what}: {said}")),
            status::UNSUPPORTED_PTX_VERSION => Fault::Unsupported(format!(
                "the NVIDIA driver is too old for these kernels: {said}"
            )),
            status::NO_BINARY_FOR_GPU => Fault::Unsupported(format!(
                "this GPU is too old: kernels need compute capability 8.0: {said}"
            )),
            status::INVALID_IMAGE | status::INVALID_PTX => {
                Fault::Internal(format!("the driver refuses a kernel: {said}"))
            }
            status::LAUNCH_OUT_OF_RESOURCES => Fault::Invalid(format!(
                "a threadgroup needs more registers or threadgroup memory than the GPU has: {said}"
            )),
            status::LAUNCH_TIMEOUT => Fault::DeviceLost(format!(
                "a kernel took longer than the GPU's driver allows; start the process again: {said}"
            )),
            // Those that end the context: a kernel's faults.
            status::DEINITIALIZED | 214 | 220 | 226 | status::ILLEGAL_ADDRESS..=720 | 999 => {
                Fault::DeviceLost(format!(
                    "a kernel failed, and the GPU's memory is lost; start the process again: {said}"
                ))
            }
            _ => Fault::Internal(format!("{what}: {said} ({status})")),
        }
    }

    fn text(&self, status: Status) -> String {
        let mut text = ptr::null();
        // SAFETY: a place for a static text, which stays NULL for an unknown status.
        let known = unsafe { (self.error_string)(status, &mut text) };
        match known == status::SUCCESS && !text.is_null() {
            // SAFETY: a C string of the driver's, as above.
            true => unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned(),
            false => format!("status {status}"),
        }
    }
}
