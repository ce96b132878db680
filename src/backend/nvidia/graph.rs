//! Submissions as CUDA graphs. A list of launches that comes again, as that of the next token does, is instantiated
//! once; afterwards only the launches that changed are told to the driver, and one call starts them all. A launch by
//! itself costs the host several times what a node of a graph does.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::slice;
use std::sync::Arc;

use super::context::Context;
use super::driver::{self, Edge, GraphNode, KernelNode};
use super::module::Function;
use crate::backend::fault::Fault;

/// The shortest list that becomes a graph.
const FEWEST: usize = 6;
/// Graphs that a stream keeps: a token is several submissions, and texts of different lengths take turns.
const MOST_GRAPHS: usize = 32;
/// Lists that were seen once, which a stream remembers.
const MOST_SEEN: usize = 64;

/// One launch. Its parameter is in the list.
#[derive(Clone, Debug)]
struct Launch {
    function: driver::Function,
    /// Unlike the handle, of one function only.
    id: u64,
    name: Arc<str>,
    groups: [u32; 3],
    threads: [u32; 3],
    /// Bytes of threadgroup memory.
    shared: u32,
    parameter: Parameter,
}

/// Where in a list of launches a parameter is, in units of [`Unit`].
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    first: usize,
    length: usize,
}

/// Bytes as kernels' parameters are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(16))]
struct Unit([u8; 16]);

/// Launches, one after another.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    launches: Vec<Launch>,
    parameters: Vec<Unit>,
}

impl Launches {
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    pub fn clear(&mut self) {
        self.launches.clear();
        self.parameters.clear();
    }

    /// A parameter of `bytes` zeros, for launches that are appended next.
    pub fn add_parameter(&mut self, bytes: usize) -> Parameter {
        let first = self.parameters.len();
        let length = bytes.div_ceil(size_of::<Unit>());
        self.parameters.resize(first + length, Unit([0; 16]));
        Parameter { first, length }
    }

    /// Another one with the same bytes.
    pub fn add_copy(&mut self, parameter: Parameter) -> Parameter {
        let Parameter { first, length } = parameter;
        let copy = self.parameters.len();
        self.parameters.extend_from_within(first..first + length);
        Parameter {
            first: copy,
            length,
        }
    }

    pub fn bytes_of(&mut self, parameter: Parameter) -> &mut [u8] {
        let units = &mut self.parameters[parameter.first..parameter.first + parameter.length];
        // SAFETY: a unit is 16 bytes without gaps, and these are borrowed as long as the bytes are.
        unsafe { slice::from_raw_parts_mut(units.as_mut_ptr().cast(), size_of_val(units)) }
    }

    /// Appends a launch.
    pub fn push(
        &mut self,
        function: &Function,
        groups: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        parameter: Parameter,
    ) {
        self.launches.push(Launch {
            function: function.handle,
            id: function.id,
            name: Arc::clone(&function.name),
            groups,
            threads,
            shared,
            parameter,
        });
    }

    fn parameter(&self, launch: &Launch) -> &[Unit] {
        let Parameter { first, length } = launch.parameter;
        &self.parameters[first..first + length]
    }

    /// Of lists with the same functions in the same order the same, and hardly of others.
    fn signature(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for launch in &self.launches {
            launch.id.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether the same functions come in the same order.
    fn is_like(&self, other: &Launches) -> bool {
        let mut pairs = self.launches.iter().zip(&other.launches);
        self.len() == other.len() && pairs.all(|(one, other)| one.id == other.id)
    }

    /// Puts launch `index` into a stream. The context is the calling thread's.
    fn launch(&self, index: usize, context: &Context, stream: driver::Stream) -> Result<(), Fault> {
        let launch = &self.launches[index];
        let mut parameters: [*mut c_void; 1] = [self.parameter(launch).as_ptr().cast_mut().cast()];
        let ([x, y, z], [width, height, depth]) = (launch.groups, launch.threads);
        // SAFETY: a loaded function whose one parameter has these bytes, which the call copies. Whatever they point to
        // lives until the submission completes. What the kernel makes of it is its author's: backend.h.
        let status = unsafe {
            (context.driver.launch)(
                launch.function,
                x,
                y,
                z,
                width,
                height,
                depth,
                launch.shared,
                stream,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        context
            .check("cuLaunchKernel", status)
            .map_err(|fault| fault.map_text(|text| format!("kernel `{}`: {text}", launch.name)))
    }

    /// Calls `body` with what the driver is told of launch `index`.
    fn with_node<T>(&self, index: usize, body: impl FnOnce(&KernelNode) -> T) -> T {
        let launch = &self.launches[index];
        let mut parameters: [*mut c_void; 1] = [self.parameter(launch).as_ptr().cast_mut().cast()];
        body(&KernelNode {
            function: launch.function,
            groups: launch.groups,
            threads: launch.threads,
            shared: launch.shared,
            parameters: parameters.as_mut_ptr(),
            extra: ptr::null_mut(),
        })
    }
}

/// An instantiated graph and what it launches.
struct Graph {
    graph: driver::Graph,
    executable: driver::GraphExec,
    nodes: Vec<GraphNode>,
    launches: Launches,
}

impl Graph {
    /// The context is the calling thread's.
    fn of(context: &Context, launches: Launches) -> Result<Graph, Fault> {
        let driver = &context.driver;
        let mut made = Graph {
            graph: driver::Graph(ptr::null_mut()),
            executable: driver::GraphExec(ptr::null_mut()),
            nodes: Vec::with_capacity(launches.len()),
            launches,
        };
        let built = made.build(context, driver);
        match built {
            Ok(()) => Ok(made),
            Err(fault) => {
                made.destroy(context);
                Err(fault)
            }
        }
    }

    fn build(&mut self, context: &Context, driver: &driver::Driver) -> Result<(), Fault> {
        // SAFETY: a place for the graph; the flags must be 0.
        let status = unsafe { (driver.graph_create)(&mut self.graph, 0) };
        context.check("cuGraphCreate", status)?;
        for index in 0..self.launches.len() {
            let mut node = GraphNode(ptr::null_mut());
            let last: &[GraphNode] = self.nodes.last().map_or(&[], slice::from_ref);
            let overlapping = driver.graph_depend.filter(|_| context.overlaps());
            let before = match overlapping {
                Some(_) => &[],
                None => last,
            };
            // SAFETY: a place for the node, a graph, nodes of it, and a launch whose parameter the call copies.
            let status = self.launches.with_node(index, |launch| unsafe {
                (driver.graph_add)(&mut node, self.graph, before.as_ptr(), before.len(), launch)
            });
            context.check("cuGraphAddKernelNode", status)?;
            if let (Some(depend), [last]) = (overlapping, last) {
                // SAFETY: two nodes of the graph and one edge.
                let status = unsafe { depend(self.graph, last, &node, &Edge::OVERLAPPING, 1) };
                context.check("cuGraphAddDependencies", status)?;
            }
            self.nodes.push(node);
        }
        // SAFETY: a place for what can be launched, and a graph.
        let status = unsafe { (driver.graph_instantiate)(&mut self.executable, self.graph, 0) };
        context.check("cuGraphInstantiateWithFlags", status)
    }

    /// Makes the graph launch `launches`, which are like its own. Runs of it that are under way are not changed.
    fn update(&mut self, context: &Context, launches: &mut Launches) -> Result<(), Fault> {
        for index in 0..launches.len() {
            let (old, new) = (&self.launches.launches[index], &launches.launches[index]);
            let same = (old.groups, old.threads, old.shared)
                == (new.groups, new.threads, new.shared)
                && self.launches.parameter(old) == launches.parameter(new);
            if same {
                continue;
            }
            // SAFETY: a node of the graph, and a launch of its function, whose parameter the call copies.
            let status = launches.with_node(index, |launch| unsafe {
                (context.driver.graph_change)(self.executable, self.nodes[index], launch)
            });
            context.check("cuGraphExecKernelNodeSetParams", status)?;
        }
        std::mem::swap(&mut self.launches, launches);
        Ok(())
    }

    fn launch(&self, context: &Context, stream: driver::Stream) -> Result<(), Fault> {
        // SAFETY: an instantiated graph and a stream of one context.
        let status = unsafe { (context.driver.graph_launch)(self.executable, stream) };
        context.check("cuGraphLaunch", status)
    }

    /// The context is the calling thread's.
    fn destroy(self, context: &Context) {
        if !self.executable.0.is_null() {
            // SAFETY: instantiated once. Runs under way go on: section 6.22.
            let _ = unsafe { (context.driver.graph_exec_destroy)(self.executable) };
        }
        if !self.graph.0.is_null() {
            // SAFETY: created once.
            let _ = unsafe { (context.driver.graph_destroy)(self.graph) };
        }
    }
}

/// The graphs of a stream, and the list of launches that is being made.
#[derive(Default)]
pub struct Graphs {
    /// The one used last at the end.
    graphs: Vec<Graph>,
    /// Signatures of long lists that were not one of theirs.
    seen: VecDeque<u64>,
    pub launches: Launches,
}

impl Graphs {
    /// Starts the launches of a submission that has nothing else, and forgets them. Whether they start together, when
    /// this returns.
    pub fn start(&mut self, context: &Context, stream: driver::Stream) -> Result<bool, Fault> {
        let started = match self.prepared(context) {
            Ok(Some(graph)) => graph.launch(context, stream).map(|()| true),
            Err(lost @ Fault::DeviceLost(_)) => Err(lost),
            // Whatever a graph lacks, a stream may have.
            Ok(None) | Err(_) => self.start_each(context, stream).map(|()| false),
        };
        self.launches.clear();
        started
    }

    /// Starts them one by one, and forgets them.
    pub fn start_each(&mut self, context: &Context, stream: driver::Stream) -> Result<(), Fault> {
        let all = 0..self.launches.len();
        let started = all
            .into_iter()
            .try_for_each(|index| self.launches.launch(index, context, stream));
        self.launches.clear();
        started
    }

    /// A graph of the launches, when they came before.
    fn prepared(&mut self, context: &Context) -> Result<Option<&Graph>, Fault> {
        if self.launches.len() < FEWEST {
            return Ok(None);
        }
        let known = self
            .graphs
            .iter()
            .position(|graph| graph.launches.is_like(&self.launches));
        if let Some(known) = known {
            let mut graph = self.graphs.remove(known);
            if let Err(fault) = graph.update(context, &mut self.launches) {
                graph.destroy(context);
                return Err(fault);
            }
            self.graphs.push(graph);
            return Ok(self.graphs.last());
        }
        let signature = self.launches.signature();
        if !self.seen.contains(&signature) {
            self.seen.truncate(MOST_SEEN - 1);
            self.seen.push_front(signature);
            return Ok(None);
        }
        if self.graphs.len() == MOST_GRAPHS {
            self.graphs.remove(0).destroy(context);
        }
        let launches = self.launches.clone();
        self.graphs.push(Graph::of(context, launches)?);
        Ok(self.graphs.last())
    }

    /// The context is the calling thread's.
    pub fn destroy(&mut self, context: &Context) {
        for graph in self.graphs.drain(..) {
            graph.destroy(context);
        }
    }
}
