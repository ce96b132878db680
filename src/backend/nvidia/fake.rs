//! A driver for tests: GPUs whose memory is the host's, that record launches and fail on request. One test at a time
//! uses it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::driver::*;
use crate::msl::ptx::Description;

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub shared: u32,
    /// The kernel's parameter.
    pub packet: Vec<u8>,
}

#[derive(Default)]
struct State {
    launches: Vec<Launched>,
    /// Live allocations with their bytes, by address.
    memory: HashMap<usize, usize>,
    /// What a function returns from now on.
    failing: HashMap<&'static str, Status>,
    version: c_int,
    gpus: c_int,
    capability: c_int,
    managed: c_int,
    /// Contexts that are current, less those that are not any more.
    entered: i64,
    /// Contexts, streams, events, modules and graphs that live.
    live: i64,
    /// Of the newest graph.
    nodes: Vec<Launched>,
    /// Nodes that were changed after the graph was instantiated, and how often graphs were launched.
    changes: usize,
    graph_launches: usize,
    /// Edges of graphs.
    edges: usize,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static IN_USE: Mutex<()> = Mutex::new(());

/// The driver while a test uses it.
pub struct Fake {
    pub driver: Arc<Driver>,
    _alone: MutexGuard<'static, ()>,
}

fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    let mut state = STATE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    body(state.get_or_insert_default())
}

impl Fake {
    /// One GPU of compute capability 9.0 under a driver of CUDA 12.4.
    pub fn new() -> Fake {
        let alone = IN_USE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        with(|state| {
            *state = State {
                version: 12040,
                gpus: 1,
                capability: 9,
                managed: 1,
                ..State::default()
            }
        });
        Fake {
            driver: Arc::new(functions()),
            _alone: alone,
        }
    }

    pub fn fail(&self, function: &'static str, status: Status) {
        with(|state| state.failing.insert(function, status));
    }

    pub fn mend(&self) {
        with(|state| state.failing.clear());
    }

    pub fn set_version(&self, version: c_int) {
        with(|state| state.version = version);
    }

    pub fn set_gpus(&self, gpus: c_int) {
        with(|state| state.gpus = gpus);
    }

    pub fn set_capability(&self, major: c_int) {
        with(|state| state.capability = major);
    }

    pub fn set_managed(&self, managed: bool) {
        with(|state| state.managed = c_int::from(managed));
    }

    pub fn launches(&self) -> Vec<Launched> {
        with(|state| std::mem::take(&mut state.launches))
    }

    /// How many edges graphs have.
    pub fn edges(&self) -> usize {
        with(|state| state.edges)
    }

    /// How many nodes of graphs were changed, and how often one was launched.
    pub fn graphs(&self) -> (usize, usize) {
        with(|state| (state.changes, state.graph_launches))
    }

    /// Objects and pieces of memory that live.
    pub fn count_live(&self) -> usize {
        with(|state| state.live as usize + state.memory.len())
    }

    /// What lives goes.
    pub fn end_process(&self) {
        with(|state| {
            let memory: Vec<usize> = state.memory.keys().copied().collect();
            for address in memory {
                freed(state, pointer(address as Address));
            }
        });
    }

    /// Nothing of what was made is left, and no thread has the context.
    pub fn check_released(&self) {
        with(|state| {
            assert_eq!(state.live, 0, "objects live");
            assert_eq!(state.entered, 0, "contexts that were not left");
            assert!(state.memory.is_empty(), "memory of {:?}", state.memory);
        });
    }
}

/// Calls `body` unless the function is to fail.
fn call(name: &'static str, body: impl FnOnce(&mut State)) -> Status {
    with(|state| match state.failing.get(name) {
        Some(status) => *status,
        None => {
            body(state);
            status::SUCCESS
        }
    })
}

/// A handle of nothing: a counted object.
fn made(state: &mut State) -> *mut c_void {
    state.live += 1;
    ptr::without_provenance_mut(0x1000)
}

fn allocated(state: &mut State, bytes: usize) -> *mut c_void {
    // SAFETY: any size; freed by `freed`.
    let memory = unsafe { libc::calloc(1, bytes) };
    state.memory.insert(memory as usize, bytes);
    memory
}

fn freed(state: &mut State, memory: *mut c_void) {
    let known = state.memory.remove(&(memory as usize));
    assert!(known.is_some(), "freed what was not allocated");
    // SAFETY: of `allocated`, and freed once.
    unsafe { libc::free(memory) }
}

fn pointer(address: Address) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// A place that a caller gave.
///
/// # Safety
/// A valid place.
unsafe fn put<T>(place: *mut T, value: T) {
    // SAFETY: the caller's promise.
    unsafe { place.write(value) }
}

/// # Safety
/// A launch as the driver takes it.
unsafe fn launched(launch: *const KernelNode) -> Launched {
    // SAFETY: the caller's promise; a fake function's handle is its parameter's length.
    unsafe {
        let launch = &*launch;
        let bytes = (*launch.parameters).cast::<u8>();
        Launched {
            groups: launch.groups,
            threads: launch.threads,
            shared: launch.shared,
            packet: std::slice::from_raw_parts(bytes, launch.function.0 as usize).to_vec(),
        }
    }
}

macro_rules! fakes {
    ($($field:ident($($argument:ident: $type:ty),*) |$state:ident| $body:block)+) => {
        fn functions() -> Driver {
            $(#[allow(
                unused_unsafe,
                clippy::too_many_arguments,
                reason = "the driver's own; some do nothing with their arguments"
            )]
            unsafe extern "C" fn $field($($argument: $type),*) -> Status {
                call(stringify!($field), |$state| {
                    let _ = &$state;
                    // SAFETY: the tests call this as they would the driver: places are valid, memory is allocated.
                    unsafe { $body }
                })
            })+
            Driver {
                $($field,)+
                event_query,
                graph_depend: Some(graph_depend),
                endless: Mutex::default(),
            }
        }
    };
}

/// Each node comes after the one before it, which it overlaps.
unsafe extern "C" fn graph_depend(
    _graph: Graph,
    from: *const GraphNode,
    to: *const GraphNode,
    edges: *const Edge,
    count: usize,
) -> Status {
    // SAFETY: as many nodes and edges.
    let (from, to, edge) = unsafe { (*from, *to, &*edges) };
    let last = with(|state| state.nodes.len());
    let overlaps = (edge.from_port, edge.to_port, edge.kind) == (1, 0, 1);
    assert!(
        overlaps && count == 1,
        "one edge from a kernel's permission"
    );
    assert_eq!(
        (from.0.addr() + 1, to.0.addr()),
        (last, last),
        "they are in order"
    );
    with(|state| state.edges += 1);
    status::SUCCESS
}

/// An event has happened when it is asked for the second time.
unsafe extern "C" fn event_query(_event: Event) -> Status {
    static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let failing = with(|state| state.failing.get("event_query").copied());
    let first = ASKED
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        .is_multiple_of(2);
    failing.unwrap_or(if first {
        status::NOT_READY
    } else {
        status::SUCCESS
    })
}

fakes! {
    error_string(_status: Status, text: *mut *const c_char) |s| { put(text, c"the fake says so".as_ptr()) }
    init(_flags: c_uint) |s| {}
    driver_version(version: *mut c_int) |s| { put(version, s.version) }
    device_count(count: *mut c_int) |s| { put(count, s.gpus) }
    device_get(device: *mut c_int, ordinal: c_int) |s| { put(device, ordinal) }
    device_name(name: *mut c_char, _length: c_int, _device: c_int) |s| {
        ptr::copy_nonoverlapping(c"Fake GPU".as_ptr(), name, 9)
    }
    device_attribute(value: *mut c_int, attribute: c_int, _device: c_int) |s| {
        put(value, match attribute {
            device_attribute::MAX_THREADS_PER_BLOCK => 1024,
            device_attribute::MAX_SHARED_MEMORY_ON_REQUEST => 227 << 10,
            device_attribute::WARP_SIZE => 32,
            device_attribute::MULTIPROCESSOR_COUNT => 132,
            device_attribute::COMPUTE_CAPABILITY_MAJOR => s.capability,
            device_attribute::CONCURRENT_MANAGED_ACCESS => s.managed,
            device_attribute::HOST_REGISTER_SUPPORTED => 1,
            _ => 0,
        })
    }
    device_memory(bytes: *mut usize, _device: c_int) |s| { put(bytes, 8 << 20) }
    context_retain(context: *mut Context, _device: c_int) |s| { put(context, Context(made(s))) }
    context_release(_device: c_int) |s| { s.live -= 1 }
    context_push(_context: Context) |s| { s.entered += 1 }
    context_pop(_context: *mut Context) |s| { s.entered -= 1 }
    module_load(module: *mut Module, image: *const c_void, _count: c_uint, _options: *const c_int,
        _values: *const *mut c_void) |s| {
        let text = CStr::from_ptr(image.cast()).to_str().expect("PTX is ASCII");
        let bytes = Description::read(text, 0).expect("a kernel's module").packet_bytes;
        s.live += 1;
        put(module, Module(ptr::without_provenance_mut(bytes)))
    }
    module_unload(_module: Module) |s| { s.live -= 1 }
    module_function(function: *mut Function, module: Module, _name: *const c_char) |s| {
        put(function, Function(module.0))
    }
    memory_info(free: *mut usize, total: *mut usize) |s| {
        put(free, 3 << 20);
        put(total, 8 << 20)
    }
    memory_allocate(address: *mut Address, bytes: usize) |s| { put(address, allocated(s, bytes) as Address) }
    memory_allocate_managed(address: *mut Address, bytes: usize, _flags: c_uint) |s| {
        put(address, allocated(s, bytes) as Address)
    }
    memory_free(address: Address) |s| { freed(s, pointer(address)) }
    host_allocate(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) |s| { put(pointer, allocated(s, bytes)) }
    host_free(pointer: *mut c_void) |s| { freed(s, pointer) }
    host_register(_pointer: *mut c_void, _bytes: usize, _flags: c_uint) |s| { s.live += 1 }
    host_unregister(_pointer: *mut c_void) |s| { s.live -= 1 }
    host_address(address: *mut Address, pointer: *mut c_void, _flags: c_uint) |s| { put(address, pointer as Address) }
    copy_to_device(to: Address, from: *const c_void, bytes: usize) |s| {
        ptr::copy_nonoverlapping(from.cast::<u8>(), pointer(to).cast(), bytes)
    }
    copy_to_host(to: *mut c_void, from: Address, bytes: usize) |s| {
        ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), to.cast(), bytes)
    }
    copy_on_stream(to: Address, from: Address, bytes: usize, _stream: Stream) |s| {
        ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), pointer(to).cast(), bytes)
    }
    set_bytes(to: Address, value: u8, bytes: usize) |s| { pointer(to).cast::<u8>().write_bytes(value, bytes) }
    set_on_stream(to: Address, value: u8, bytes: usize, _stream: Stream) |s| {
        pointer(to).cast::<u8>().write_bytes(value, bytes)
    }
    stream_create(stream: *mut Stream, _flags: c_uint) |s| { put(stream, Stream(made(s))) }
    stream_destroy(_stream: Stream) |s| { s.live -= 1 }
    stream_synchronize(_stream: Stream) |s| {}
    event_create(event: *mut Event, _flags: c_uint) |s| { put(event, Event(made(s))) }
    event_destroy(_event: Event) |s| { s.live -= 1 }
    event_record(_event: Event, _stream: Stream) |s| {}
    function_attribute(value: *mut c_int, attribute: c_int, _function: Function) |s| {
        put(value, match attribute {
            function_attribute::MAX_THREADS_PER_BLOCK => 640,
            _ => 0,
        })
    }
    function_set(_function: Function, _attribute: c_int, _value: c_int) |s| {}
    launch(function: Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, _stream: Stream, parameters: *mut *mut c_void,
        _extra: *mut *mut c_void) |s| {
        let packet = std::slice::from_raw_parts((*parameters).cast::<u8>(), function.0 as usize);
        s.launches.push(Launched {
            groups: [grid_x, grid_y, grid_z],
            threads: [block_x, block_y, block_z],
            shared,
            packet: packet.to_vec(),
        })
    }
    graph_create(graph: *mut Graph, _flags: c_uint) |s| {
        s.nodes.clear();
        put(graph, Graph(made(s)))
    }
    graph_add(node: *mut GraphNode, _graph: Graph, before: *const GraphNode, count: usize, launch: *const KernelNode)
        |s| {
        let before = std::slice::from_raw_parts(before, count);
        let last = s.nodes.len();
        assert_eq!(before, [], "nodes that overlap are ordered by edges of their own");
        s.nodes.push(launched(launch));
        put(node, GraphNode(ptr::without_provenance_mut(last + 1)))
    }
    graph_instantiate(executable: *mut GraphExec, _graph: Graph, _flags: u64) |s| {
        put(executable, GraphExec(made(s)))
    }
    graph_change(_executable: GraphExec, node: GraphNode, launch: *const KernelNode) |s| {
        s.changes += 1;
        s.nodes[node.0.addr() - 1] = launched(launch)
    }
    graph_launch(_executable: GraphExec, _stream: Stream) |s| {
        s.graph_launches += 1;
        let nodes = s.nodes.clone();
        s.launches.extend(nodes)
    }
    graph_exec_destroy(_executable: GraphExec) |s| { s.live -= 1 }
    graph_destroy(_graph: Graph) |s| { s.live -= 1 }
}
